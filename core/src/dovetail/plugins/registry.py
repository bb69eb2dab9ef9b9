"""The registry of named plugins, built on stevedore, with three of its defects avoided.

* Its disk cache under the user's cache folder can be stale: it is neither read nor written, because
  stevedore's in-memory cache is always filled first, from the installed dists' metadata.
* Its conflict check compares adjacent entries only: conflicts are found here, beforehand.
* Its managers drop plugins that fail to import: here they stay listed, with the reason.

A loaded plugin is checked against the contract of its group (`_groups`); one that does not meet it
is broken, exactly as one that fails to import.

`DOVETAIL_PLUGINS` restricts the plugins: a comma-separated list, each item the name of a dist (in
any spelling of PEP 503) or the exact name of a plugin, in any group. A plugin is enabled if its
dist or its name is listed. Unset means all, empty means none; core's own commands are always
enabled. An item that matches nothing installed is an error. The variable is read once, and again
after `refresh()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import NamedTuple

from dovetail.collecting import importing
from dovetail.errors import ConfigError, DovetailError, PluginError, suggest_name
from dovetail.plugins._found import VARIABLE, Found, Key, Plugin, Status
from dovetail.plugins._groups import GROUPS
from dovetail.plugins._scan import CORE, Claim, scan


class _Outcome(NamedTuple):
    """The result of loading a plugin: the object, or the error."""

    value: object = None
    error: BaseException | None = None


class Registry:
    """Finds plugins by group and name, and loads each on first use.

    Thread-safe. No lock is held while a plugin is imported, so that a plugin may use the registry
    during its import; threads that load one plugin at the same time get the same object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None
        self._outcomes: dict[Key, _Outcome] = {}
        self._reported: set[Key] = set()
        self._on_refresh: list[Callable[[], None]] = []

    def list_plugins(self, group: str | None = None) -> tuple[Plugin, ...]:
        """Return all plugins, or those of one group, sorted; imports nothing.

        Raises:
            ConfigError: The group is unknown, or DOVETAIL_PLUGINS names something not installed.
        """
        if group is not None:
            _check_group(group)
        found = self._scanned()
        return tuple(
            self._plugin(found, claim)
            for claim in found.claims
            if group is None or claim.group == group
        )

    def names(self, group: str) -> tuple[str, ...]:
        """Return the sorted names of a group's enabled plugins; imports nothing.

        Only loading a plugin shows whether it is usable.

        Raises:
            ConfigError: As `list_plugins`.
        """
        _check_group(group)
        return tuple(name for of, name in self._scanned().by_key if of == group)

    def load(self, group: str, name: str) -> object:
        """Return the object that an entry point loads; for a line of help, its text.

        Raises:
            ConfigError: As `list_plugins`.
            PluginError: PLUGIN_MISSING, PLUGIN_CONFLICT, PLUGIN_INCOMPATIBLE, or PLUGIN_BROKEN if
                importing it fails or it does not meet its contract. A plugin that failed is not
                tried again.
        """
        _check_group(group)
        found = self._scanned()
        claims = found.by_key.get((group, name))
        if not claims:
            raise self._missing(found, group, name)
        claim = claims[0]
        outcome = self._outcomes.get(claim.key)
        if outcome is None:
            status, reason = found.verdict(claim)
            if status == "ok":
                return claim.value
            if status != "unloaded":
                raise _plugin_error(claim, status, reason)
            outcome = self._remember(claim, _attempt(claim, found.winners(group)))
        if outcome.error is not None:
            raise _plugin_error(claim, "broken", _reason(outcome.error)) from outcome.error
        return outcome.value

    def load_usable(self, group: str, name: str) -> object | None:
        """Return what `load` returns, or None if the plugin is not usable.

        An unusable plugin is reported once, by a warning in the log. To be used where the user
        did not name the plugin.

        Raises:
            ConfigError: As `list_plugins`.
            PluginError: PLUGIN_MISSING.
        """
        try:
            return self.load(group, name)
        except PluginError as error:
            if error.code == "PLUGIN_MISSING":
                raise
            self._report(group, name, error)
            return None

    def load_all(self, group: str) -> dict[str, object]:
        """Return the usable plugins of a group, by name; the others are left out with a warning.

        Raises:
            ConfigError: As `list_plugins`.
        """
        loaded = {name: self.load_usable(group, name) for name in self.names(group)}
        return {name: found for name, found in loaded.items() if found is not None}

    def leave_out(self, group: str, name: str, reason: str) -> None:
        """Report a plugin that is not usable for a reason found after it was loaded.

        Raises:
            ConfigError: As `list_plugins`.
            PluginError: PLUGIN_MISSING.
        """
        plugin = self.probe(group, name)
        where = f"{group} '{name}' (dist {plugin.dist} {plugin.version})"
        self._report(group, name, PluginError(reason, where=where))

    def probe(self, group: str, name: str) -> Plugin:
        """Try to load a plugin and return its description; a broken one does not raise.

        Raises:
            ConfigError: As `list_plugins`.
            PluginError: PLUGIN_MISSING.
        """
        try:
            self.load(group, name)
        except PluginError as error:
            if error.code == "PLUGIN_MISSING":
                raise
        found = self._scanned()
        return self._plugin(found, found.by_key[group, name][0])

    def refresh(self) -> None:
        """Forget all plugins found and loaded: after an install or a change of the environment.

        Imported modules stay imported.
        """
        import importlib  # one of its submodules caches directory listings

        importlib.invalidate_caches()
        with self._lock:
            self._found = None
            self._outcomes.clear()
            self._reported.clear()
        for call in self._on_refresh:
            call()

    def on_refresh(self, call: Callable[[], None]) -> None:
        """Let every `refresh` end with a call: data derived from plugins is stale then."""
        self._on_refresh.append(call)

    # -- inside ----------------------------------------------------------------------------------

    def _scanned(self) -> Found:
        with self._lock:
            if self._found is None:
                self._found = Found(scan(), os.environ.get(VARIABLE))
            return self._found

    def _plugin(self, found: Found, claim: Claim) -> Plugin:
        status, reason = found.verdict(claim)
        if status == "unloaded":
            outcome = self._outcomes.get(claim.key)
            if outcome is not None and outcome.error is None:
                status = "ok"
            elif outcome is not None and outcome.error is not None:
                status, reason = "broken", _reason(outcome.error)
        dist = claim.dist
        return Plugin(claim.group, claim.name, dist.name, dist.version, claim.value, status, reason)

    def _remember(self, claim: Claim, outcome: _Outcome) -> _Outcome:
        with self._lock:  # of two threads that loaded it at once, the first result counts
            return self._outcomes.setdefault(claim.key, outcome)

    def _missing(self, found: Found, group: str, name: str) -> PluginError:
        for claim in found.claims:
            if claim.key == (group, name):
                return PluginError(
                    f"plugin '{name}' (dist {claim.dist.name}) is disabled by {VARIABLE}",
                    code="PLUGIN_MISSING",
                    where=group,
                    hint=f"add the plugin to {VARIABLE}, or unset the variable",
                )
        return PluginError(
            f"plugin '{name}' is not installed",
            code="PLUGIN_MISSING",
            where=group,
            hint=suggest_name(name, self.names(group)),
        )

    def _report(self, group: str, name: str, error: PluginError) -> None:
        with self._lock:
            if (group, name) in self._reported:
                return
            self._reported.add((group, name))
        import logging  # imported here: `dovetail --help` never needs it

        logging.getLogger(__name__).warning("%s is ignored: %s", error.where, error.message)


def _attempt(claim: Claim, group: list[EntryPoint]) -> _Outcome:
    # imported here: listing plugins does without it
    from stevedore import DriverManager, ExtensionManager

    # Filled for this group, so that stevedore never reads its disk cache. With all its entries,
    # since another thread may be loading another one.
    ExtensionManager.ENTRY_POINT_CACHE[claim.group] = group
    try:
        with importing(claim.entry_point.module):
            found: object = DriverManager(claim.group, claim.name).driver
        faults = GROUPS[claim.group].faults(found, claim.name)
        return _Outcome(error=PluginError("; ".join(faults))) if faults else _Outcome(found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  quarantine: a plugin may raise even SystemExit
        return _Outcome(error=error)


def _reason(error: BaseException) -> str:
    if isinstance(error, DovetailError):
        return error.message
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _plugin_error(claim: Claim, status: Status, reason: str) -> PluginError:
    where = f"{claim.group} '{claim.name}' (dist {claim.dist.name} {claim.dist.version})"
    if status == "conflict":
        return PluginError(
            f"the name is claimed by {reason}",
            code="PLUGIN_CONFLICT",
            where=f"{claim.group} '{claim.name}'",
            hint=f"uninstall one of the dists, or list the ones to use in {VARIABLE}",
        )
    if status == "incompatible":
        hint = f"install compatible versions of {claim.dist.name} and {CORE}"
        return PluginError(reason, code="PLUGIN_INCOMPATIBLE", where=where, hint=hint)
    return PluginError(
        f"cannot be loaded: {reason}",
        code="PLUGIN_BROKEN",
        where=where,
        hint=f"repair or uninstall {claim.dist.name}; `--log-level debug` prints the traceback",
    )


def _check_group(group: str) -> None:
    if group not in GROUPS:
        raise ConfigError(f"plugin group '{group}' not found", hint=suggest_name(group, GROUPS))


_REGISTRY = Registry()

list_plugins = _REGISTRY.list_plugins
names = _REGISTRY.names
load = _REGISTRY.load
load_all = _REGISTRY.load_all
load_usable = _REGISTRY.load_usable
leave_out = _REGISTRY.leave_out
probe = _REGISTRY.probe
refresh = _REGISTRY.refresh
on_refresh = _REGISTRY.on_refresh
