"""Judges from metadata alone whether a dist goes with the running core."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.plugins._scan import CORE, normalize


def core_fault(requires: Iterable[str], core: str) -> str:
    """Gives why a dist does not go with this core; an empty text where it does.

    Args:
        requires: The dist's requirements.
        core: Version of dovetail-core; empty where core runs without being installed, which fits
            everything.

    Source: PEP 440 (versions), PEP 508 (requirements and markers), by `packaging`.
    """
    # imported here: `dovetail --help` lists commands without judging them
    from packaging.requirements import InvalidRequirement, Requirement

    for text in requires:
        if not normalize(text).startswith(CORE):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            return f"its requirement '{text}' cannot be read: {error}"
        if normalize(requirement.name) != CORE:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        # a development version of core is what it will be: its pre-releases are let in
        if core and not requirement.specifier.contains(core, prereleases=True):
            return f"it requires {CORE}{requirement.specifier}, and this is {core}"
    return ""
