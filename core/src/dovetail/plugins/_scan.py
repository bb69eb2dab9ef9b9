"""Search for plugins in the metadata of installed dists; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import NamedTuple

from dovetail.plugins._groups import COMMAND_HELP, PREFIX

CORE = "dovetail-core"

# Some build tools accept only values of the form `module:attribute [extras]`; text in brackets
# passes their checks, so a line of help may also be written `help [Convert a model file]`.
_BRACKETED = re.compile(r"\S+\s*\[(.*)\]")

# Fields of the metadata, each on one line. The reader of the standard library parses all fields and
# the description, and its import alone takes as long as the scan.
_FIELD = re.compile(r"^(name|version|requires-dist):[ \t]*(.*\S)", re.IGNORECASE | re.MULTILINE)


class Dist(NamedTuple):
    """An installed dist that provides plugins.

    Attributes:
        name: Name as the metadata spell it.
        version: Version; empty if the metadata cannot be read.
        requires: Requirements, as written.
        fault: Why the metadata cannot be read; empty if they can.
    """

    name: str
    version: str = ""
    requires: tuple[str, ...] = ()
    fault: str = ""


class Claim(NamedTuple):
    """One entry point in one of our groups: a dist's claim on a name."""

    group: str
    name: str
    value: str
    dist: Dist
    entry_point: EntryPoint

    @property
    def key(self) -> tuple[str, str]:
        """Group and name, which only one claim may have."""
        return self.group, self.name

    @property
    def is_core(self) -> bool:
        """True if core itself provides the plugin."""
        return normalize(self.dist.name) == CORE


def normalize(name: str) -> str:
    """Return the normalized name of a dist (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).casefold()


def scan() -> tuple[Claim, ...]:
    """Return all claims on names in our groups, sorted by group, name and dist.

    A dist that is on `sys.path` twice counts once: the first one wins, as for imports.
    """
    claims: list[Claim] = []
    seen: set[str] = set()
    for found in distributions():
        if f"[{PREFIX}" not in (_text(found) or ""):
            continue  # most dists: only this small file is read, not the metadata
        dist = _dist(found)
        if normalize(dist.name) not in seen:
            seen.add(normalize(dist.name))
            claims += _claims(found, dist)
    return tuple(sorted(claims, key=lambda c: (c.group, c.name, c.dist.name)))


def _text(found: Distribution) -> str | None:
    try:
        return found.read_text("entry_points.txt")
    except (OSError, UnicodeError):
        return None  # its groups are unknown, so it cannot be reported as a plugin


def _dist(found: Distribution) -> Dist:
    folder = str(found.locate_file(""))
    try:
        text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    except (OSError, UnicodeError) as error:
        return Dist(f"(unnamed in {folder})", fault=f"the metadata cannot be read: {error}")
    lines = _FIELD.findall(text.partition("\n\n")[0])
    names, versions, requires = (
        tuple(value for key, value in lines if key.lower() == field)
        for field in ("name", "version", "requires-dist")
    )
    if not names or not versions:
        return Dist(f"(unnamed in {folder})", fault="the metadata lack a name or a version")
    return Dist(names[0], versions[0], requires)


def _claims(found: Distribution, dist: Dist) -> Iterator[Claim]:
    try:
        points = [p for p in found.entry_points if p.group.startswith(PREFIX)]
    except Exception as error:  # noqa: BLE001  readers raise various types for a malformed line
        fault = f"entry_points.txt cannot be read: {error}"
        nothing = EntryPoint("*", "", "")
        yield Claim("", "*", "", Dist(dist.name, dist.version, fault=fault), nothing)
        return
    for point in points:
        value = point.value
        if point.group == COMMAND_HELP and (bracketed := _BRACKETED.fullmatch(value)):
            value = bracketed[1]
        yield Claim(point.group, point.name, value, dist, point)
