"""What one scan of the installed dists found, and what DOVETAIL_PLUGINS selects of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Literal

from dovetail.errors import ConfigError, nearest, suggest_name
from dovetail.plugins._compatibility import core_fault
from dovetail.plugins._groups import COMMAND_HELP, GROUPS
from dovetail.plugins._scan import Claim, normalize

VARIABLE = "DOVETAIL_PLUGINS"

Status = Literal["ok", "unloaded", "broken", "conflict", "incompatible", "disabled"]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Plugin:
    """What is known of a plugin without importing it.

    Attributes:
        group: Entry-point group; empty where a dist's file of entry points cannot be read.
        name: Within the group.
        dist: Name of the dist that brings it.
        version: Of the dist.
        value: `module:attribute` that it loads, or a command's line of help.
        status: `ok` once it was loaded, `unloaded` before; `broken` if that failed; `conflict` if
            another dist claims the name too; `incompatible` if its dist requires another core;
            `disabled` if DOVETAIL_PLUGINS leaves it out.
        reason: Why it cannot be used; empty where it can.
    """

    group: str
    name: str
    dist: str
    version: str
    value: str
    status: Status
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether it was loaded, or may be."""
        return self.status in ("ok", "unloaded")


class Found:
    """The claims of all installed dists.

    Args:
        claims: From one scan.
        selection: What DOVETAIL_PLUGINS says; None where it is unset.

    Raises:
        ConfigError: The selection names what is not installed.
    """

    def __init__(self, claims: tuple[Claim, ...], selection: str | None) -> None:
        self.claims = claims
        self._core = next((c.dist.version for c in claims if c.is_core), "")
        items = None if selection is None else {s.strip() for s in selection.split(",")} - {""}
        if items:
            _check_selection(items, claims)
        self._items = items
        self._dists = {normalize(item) for item in items or ()}
        self.by_key: dict[Key, list[Claim]] = {}
        for claim in filter(self.selects, claims):
            self.by_key.setdefault(claim.key, []).append(claim)
        self._faults: dict[str, str] = {}

    def selects(self, claim: Claim) -> bool:
        """Return whether a claim is not left out."""
        if self._items is None or claim.is_core:
            return True
        return claim.name in self._items or normalize(claim.dist.name) in self._dists

    def winners(self, group: str) -> list[EntryPoint]:
        """Return the entry points of a group whose names nobody else claims."""
        keys = (key for key in self.by_key if key[0] == group)
        return [self.by_key[key][0].entry_point for key in keys if len(self.by_key[key]) == 1]

    def verdict(self, claim: Claim) -> tuple[Status, str]:
        """Return what the metadata alone say of a claim."""
        if not self.selects(claim):
            return "disabled", f"{VARIABLE} leaves it out"
        if claim.dist.fault:
            return "broken", claim.dist.fault
        if claim.group not in GROUPS:
            return "broken", f"there is no such group; {suggest_name(claim.group, GROUPS)}"
        rivals = self.by_key[claim.key]
        if len(rivals) > 1:
            return "conflict", rivalry(rivals)
        if claim.group == COMMAND_HELP:
            return "ok", ""  # there is nothing to load
        if fault := self._fault(claim):
            return "incompatible", fault
        return "unloaded", ""

    def _fault(self, claim: Claim) -> str:
        if claim.dist.name not in self._faults:  # once a dist, not once a plugin
            self._faults[claim.dist.name] = core_fault(claim.dist.requires, self._core)
        return self._faults[claim.dist.name]


def rivalry(rivals: Iterable[Claim]) -> str:
    """Return the dists that claim one name, in words."""
    return " and ".join(f"dist {c.dist.name} {c.dist.version} ({c.value})" for c in rivals)


def _check_selection(items: set[str], claims: tuple[Claim, ...]) -> None:
    dists = {normalize(c.dist.name) for c in claims}
    known = {c.name for c in claims}
    for item in sorted(items):
        if item not in known and normalize(item) not in dists:
            near = nearest(item, known | dists)
            choices = ", ".join(sorted(dists))
            raise ConfigError(
                f"'{item}' is neither an installed dist with plugins nor a plugin",
                where=VARIABLE,
                hint=f"did you mean '{near}'?" if near else f"dists with plugins: {choices}",
            )
