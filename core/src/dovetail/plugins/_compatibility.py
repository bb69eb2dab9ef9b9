"""Compatibility of a dist with the running core, by its metadata alone."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable

from dovetail.plugins._scan import CORE, normalize

# A requirement as most dists have it: a name, bounds that are plain numbers, and at most an extra.
_BOUND = r"\s*([<>]=?)\s*(\d+(?:\.\d+)*)\s*"
_EXTRA = r""";\s*extra\s*==\s*(?:'[\w-]+'|"[\w-]+")\s*"""
_PLAIN = re.compile(rf"([\w.-]*\w)(?:\[[\w-]*\w\])?({_BOUND}(?:,{_BOUND})*)(?:{_EXTRA})?", re.ASCII)
_RELEASE = re.compile(r"\d+(?:\.\d+)*", re.ASCII)
_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def core_fault(requires: Iterable[str], core: str) -> str:
    """Return why a dist is incompatible with this core; an empty string if it is compatible.

    Args:
        requires: The dist's requirements.
        core: Version of dovetail-core; empty if core runs without being installed, which satisfies
            every requirement.

    Source: PEP 440 (versions), PEP 508 (requirements and markers), by `packaging`.
    """
    for text in requires:
        if not normalize(text).startswith(CORE) or _plainly_fits(text, core):
            continue
        if fault := _fault(text, core):
            return fault
    return ""


def _plainly_fits(text: str, core: str) -> bool:
    """Return whether a requirement is a plain one that this core meets.

    It saves loading `packaging`, which takes 12 ms. Releases compare number by number, a missing
    number being 0. The extra of a requirement that is met does not matter.
    """
    found = _PLAIN.fullmatch(text)
    if found is None or normalize(found[1]) != CORE or not _RELEASE.fullmatch(core):
        return False
    bounds = re.findall(_BOUND, found[2])
    return all(_COMPARISONS[sign](_numbers(core), _numbers(bound)) for sign, bound in bounds)


def _numbers(release: str) -> tuple[int, ...]:
    numbers = [int(part) for part in release.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _fault(text: str, core: str) -> str:
    # imported here: plain requirements do without, and `dovetail --help` checks none
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        return f"invalid requirement '{text}': {error}"
    if normalize(requirement.name) != CORE:
        return ""
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return ""
    # a development version of core counts as the coming release: pre-releases are allowed
    if core and not requirement.specifier.contains(core, prereleases=True):
        return f"requires {CORE}{requirement.specifier}, but {CORE} {core} is installed"
    return ""
