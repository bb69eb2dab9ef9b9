"""Finds what installed dists claim, from their metadata alone: nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

from dovetail.plugins._groups import COMMAND_HELP, PREFIX

CORE = "dovetail-core"

# Some build tools take only values of the form `module:attribute [extras]`; text in the brackets
# passes them, so a line of help may also be written `help [Convert a model file]`.
_BRACKETED = re.compile(r"\S+\s*\[(.*)\]")


@dataclass(frozen=True, slots=True)
class Dist:
    """An installed dist that brings plugins.

    Attributes:
        name: As its metadata spell it.
        version: Empty where the metadata cannot be read.
        requires: Its requirements, as written.
        fault: Why its metadata cannot be read; empty where they can.
    """

    name: str
    version: str = ""
    requires: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One entry point in one of our groups: a dist's claim on a name."""

    group: str
    name: str
    value: str
    dist: Dist
    entry_point: EntryPoint

    @property
    def key(self) -> tuple[str, str]:
        """What only one claim may have."""
        return self.group, self.name

    @property
    def is_core(self) -> bool:
        """Whether it is one of core's own."""
        return normalize(self.dist.name) == CORE


def normalize(name: str) -> str:
    """Return a dist's name in the one spelling that all its spellings share (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).casefold()


def scan() -> tuple[Claim, ...]:
    """Return all claims on names in our groups, sorted by group, name and dist.

    A dist that lies twice on `sys.path` counts once, as it is imported: the first one wins.
    """
    claims: list[Claim] = []
    seen: set[str] = set()
    for found in distributions():
        if f"[{PREFIX}" not in (_text(found) or ""):
            continue  # most dists: read their small file, and not their metadata
        dist = _dist(found)
        if normalize(dist.name) not in seen:
            seen.add(normalize(dist.name))
            claims += _claims(found, dist)
    return tuple(sorted(claims, key=lambda c: (c.group, c.name, c.dist.name)))


def _text(found: Distribution) -> str | None:
    try:
        return found.read_text("entry_points.txt")
    except (OSError, UnicodeError):
        return None  # nobody can tell what it claims, or whether it is ours at all


def _dist(found: Distribution) -> Dist:
    place = str(found.locate_file(""))
    try:
        metadata = found.metadata
        names = metadata.get_all("Name") or []
        versions = metadata.get_all("Version") or []
        requires = tuple(metadata.get_all("Requires-Dist") or ())
    except Exception as error:  # noqa: BLE001  each Python version raises another one
        return Dist(f"(unnamed in {place})", fault=f"its metadata cannot be read: {error}")
    if not names or not versions:
        return Dist(f"(unnamed in {place})", fault="its metadata lack a name or a version")
    return Dist(str(names[0]), str(versions[0]), requires)


def _claims(found: Distribution, dist: Dist) -> Iterator[Claim]:
    try:
        points = [p for p in found.entry_points if p.group.startswith(PREFIX)]
    except Exception as error:  # noqa: BLE001  a malformed line, whatever its reader makes of it
        fault = f"its entry_points.txt cannot be read: {error}"
        nothing = EntryPoint("*", "", "")
        yield Claim("", "*", "", Dist(dist.name, dist.version, fault=fault), nothing)
        return
    for point in points:
        value = point.value
        if point.group == COMMAND_HELP and (bracketed := _BRACKETED.fullmatch(value)):
            value = bracketed[1]
        yield Claim(point.group, point.name, value, dist, point)
