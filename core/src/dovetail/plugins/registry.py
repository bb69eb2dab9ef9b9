"""The registry of named things: stevedore behind one door, its three traps closed.

* Its disk cache under the user's cache folder can be stale: it is neither read nor written, because
  stevedore's in-memory cache is always filled first, from the installed dists' metadata.
* Its conflict check sees only neighbours: conflicts are found here, before stevedore sees anything.
* Its managers drop plugins that fail to import: here they stay listed, with the reason.

`DOVETAIL_PLUGINS` restricts the plugins: a comma-separated list, each item the name of a dist (in
any spelling of PEP 503) or the exact name of a plugin, in whatever group. A plugin stays if its
dist or its name is listed. Unset means all, empty means none; core's own commands always stay. An
item that fits nothing installed is an error. It is read once, and again after `refresh()`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from dovetail.errors import ConfigError, DovetailError, PluginError, suggest_name
from dovetail.plugins._found import VARIABLE, Found, Key, Plugin, Status
from dovetail.plugins._groups import GROUPS
from dovetail.plugins._scan import CORE, Claim, scan


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of loading: the object, or what was raised instead."""

    value: object = None
    error: BaseException | None = None


class Registry:
    """Finds plugins by group and name, and loads each when it is first asked for.

    Safe for threads. No lock is held while a plugin is imported, so that a plugin may use the
    registry as it is imported; threads that load one plugin at once get the same object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None
        self._outcomes: dict[Key, _Outcome] = {}
        self._reported: set[Key] = set()
        self._generation = 0

    def list_plugins(self, group: str | None = None) -> tuple[Plugin, ...]:
        """Return all plugins, or those of one group, sorted; imports nothing.

        Raises:
            ConfigError: There is no such group, or DOVETAIL_PLUGINS names what is not installed.
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
        """Return the names in a group that may be asked for, sorted; imports and judges nothing.

        They are all but the disabled ones: whether a plugin can be used, loading it tells.

        Raises:
            ConfigError: As `list_plugins`.
        """
        _check_group(group)
        return tuple(name for of, name in self._scanned().by_key if of == group)

    def load(self, group: str, name: str) -> object:
        """Return what a plugin's entry point loads; a command's help is given as it stands.

        Raises:
            ConfigError: As `list_plugins`.
            PluginError: PLUGIN_MISSING, PLUGIN_CONFLICT, PLUGIN_INCOMPATIBLE, or PLUGIN_BROKEN from
                whatever importing it raised. A plugin that failed is not tried again.
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
                raise _refusal(claim, status, reason)
            outcome = self._remember(claim, _attempt(claim, found.winners(group)))
        if outcome.error is not None:
            raise _refusal(claim, "broken", _reason(outcome.error)) from outcome.error
        return outcome.value

    def load_all(self, group: str) -> dict[str, object]:
        """Return all of a group's plugins that load, by name.

        The others are left out, each with one warning in the log.

        Raises:
            ConfigError: As `list_plugins`.
        """
        loaded: dict[str, object] = {}
        for plugin in self.list_plugins(group):
            if plugin.status == "disabled":
                continue
            try:
                loaded[plugin.name] = self.load(group, plugin.name)
            except PluginError as error:
                self._report(plugin, error)
        return loaded

    def probe(self, group: str, name: str) -> Plugin:
        """Try to load a plugin and return what is known of it then; never raises for a broken one.

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
        """Forget all that was found and loaded: after an install, or a change of the environment.

        Modules that are imported stay so.
        """
        import importlib  # a submodule of it is what keeps directory listings

        importlib.invalidate_caches()
        with self._lock:
            self._found = None
            self._outcomes.clear()
            self._reported.clear()
            self._generation += 1

    def generation(self) -> int:
        """Return a number that every `refresh` changes: what was made from plugins is stale then."""
        return self._generation

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
        with self._lock:  # of two threads that loaded it at once, the first one's is kept
            return self._outcomes.setdefault(claim.key, outcome)

    def _missing(self, found: Found, group: str, name: str) -> PluginError:
        for claim in found.claims:
            if claim.key == (group, name):
                return PluginError(
                    f"'{name}' (dist {claim.dist.name}) is installed, but {VARIABLE} leaves it out",
                    code="PLUGIN_MISSING",
                    where=group,
                    hint=f"add it to {VARIABLE}, or unset that",
                )
        return PluginError(
            f"no plugin '{name}' is installed",
            code="PLUGIN_MISSING",
            where=group,
            hint=suggest_name(name, self.names(group)),
        )

    def _report(self, plugin: Plugin, error: PluginError) -> None:
        key = plugin.group, plugin.name
        with self._lock:
            if key in self._reported:
                return
            self._reported.add(key)
        import logging  # imported here: `dovetail --help` never needs it

        logging.getLogger(__name__).warning("%s is left out: %s", error.where, error.message)


def _attempt(claim: Claim, group: list[EntryPoint]) -> _Outcome:
    # imported here: listing plugins does without it
    from stevedore import DriverManager, ExtensionManager

    # Filled for this group, so that stevedore never asks its disk cache. Of all its entries, since
    # another thread may be loading another one.
    ExtensionManager.ENTRY_POINT_CACHE[claim.group] = group
    try:
        return _Outcome(DriverManager(claim.group, claim.name).driver)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  quarantine: a plugin may raise even SystemExit
        return _Outcome(error=error)


def _reason(error: BaseException) -> str:
    if isinstance(error, DovetailError):
        return error.message
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _refusal(claim: Claim, status: Status, reason: str) -> PluginError:
    where = f"{claim.group} '{claim.name}' (dist {claim.dist.name} {claim.dist.version})"
    if status == "conflict":
        return PluginError(
            f"more than one dist claims this name: {reason}",
            code="PLUGIN_CONFLICT",
            where=f"{claim.group} '{claim.name}'",
            hint=f"uninstall one of the dists, or list in {VARIABLE} those that you want",
        )
    if status == "incompatible":
        hint = f"install versions of {claim.dist.name} and {CORE} that go together"
        return PluginError(reason, code="PLUGIN_INCOMPATIBLE", where=where, hint=hint)
    return PluginError(
        f"it cannot be loaded: {reason}",
        code="PLUGIN_BROKEN",
        where=where,
        hint=f"repair or uninstall {claim.dist.name}; `--log-level debug` prints the traceback",
    )


def _check_group(group: str) -> None:
    if group not in GROUPS:
        raise ConfigError(f"there is no plugin group '{group}'", hint=suggest_name(group, GROUPS))


_REGISTRY = Registry()

list_plugins = _REGISTRY.list_plugins
names = _REGISTRY.names
load = _REGISTRY.load
load_all = _REGISTRY.load_all
probe = _REGISTRY.probe
refresh = _REGISTRY.refresh
generation = _REGISTRY.generation
