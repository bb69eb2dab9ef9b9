"""The plugins that one scan of the installed dists found, and those DOVETAIL_PLUGINS selects."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Literal, NamedTuple

from dovetail.errors import ConfigError, nearest, suggest_name
from dovetail.plugins._compatibility import core_fault
from dovetail.plugins._groups import COMMAND_HELP, GROUPS
from dovetail.plugins._scan import Claim, normalize

VARIABLE = "DOVETAIL_PLUGINS"

Status = Literal["ok", "unloaded", "broken", "conflict", "incompatible", "disabled"]
Key = tuple[str, str]


class Plugin(NamedTuple):
    """The description of a plugin, known without importing it.

    Attributes:
        group: Entry-point group; empty if the dist's file of entry points cannot be read.
        name: Name within the group.
        dist: Name of the dist that provides the plugin.
        version: Version of the dist.
        value: `module:attribute` to load, or a command's line of help.
        status: `ok` once loaded, `unloaded` before; `broken` if loading failed or the object does
            not meet its contract; `conflict` if another dist claims the name too; `incompatible`
            if the dist requires another core; `disabled` if DOVETAIL_PLUGINS excludes it.
        reason: Why the plugin is not usable; empty if it is.
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
        """True if the plugin is loaded or can be tried."""
        return self.status in ("ok", "unloaded")


class Found:
    """The claims of all installed dists.

    Args:
        claims: The result of one scan.
        selection: Value of DOVETAIL_PLUGINS; None if unset.

    Raises:
        ConfigError: The selection names a plugin or dist that is not installed.
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
        """Return whether the selection includes a claim."""
        if self._items is None or claim.is_core:
            return True
        return claim.name in self._items or normalize(claim.dist.name) in self._dists

    def winners(self, group: str) -> list[EntryPoint]:
        """Return the entry points of a group whose names are claimed only once."""
        keys = (key for key in self.by_key if key[0] == group)
        return [self.by_key[key][0].entry_point for key in keys if len(self.by_key[key]) == 1]

    def verdict(self, claim: Claim) -> tuple[Status, str]:
        """Return the status of a claim by its metadata alone, and the reason."""
        if not self.selects(claim):
            return "disabled", f"excluded by {VARIABLE}"
        if claim.dist.fault:
            return "broken", claim.dist.fault
        if claim.group not in GROUPS:
            return "broken", f"unknown group; {suggest_name(claim.group, GROUPS)}"
        rivals = self.by_key[claim.key]
        if len(rivals) > 1:
            return "conflict", rivalry(rivals)
        if claim.group == COMMAND_HELP:
            return "ok", ""  # nothing to load
        if fault := self._fault(claim):
            return "incompatible", fault
        return "unloaded", ""

    def _fault(self, claim: Claim) -> str:
        if claim.dist.name not in self._faults:  # once per dist, not once per plugin
            self._faults[claim.dist.name] = core_fault(claim.dist.requires, self._core)
        return self._faults[claim.dist.name]


def rivalry(rivals: Iterable[Claim]) -> str:
    """Return a text that lists the dists that claim one name."""
    return " and ".join(f"dist {c.dist.name} {c.dist.version} ({c.value})" for c in rivals)


def _check_selection(items: set[str], claims: tuple[Claim, ...]) -> None:
    dists = {normalize(c.dist.name) for c in claims}
    known = {c.name for c in claims}
    for item in sorted(items):
        if item not in known and normalize(item) not in dists:
            near = nearest(item, known | dists)
            choices = ", ".join(sorted(dists))
            raise ConfigError(
                f"'{item}' is neither a plugin nor an installed dist with plugins",
                where=VARIABLE,
                hint=f"did you mean '{near}'?" if near else f"dists with plugins: {choices}",
            )
