"""Hooks: notification of plugins about events, by pluggy's rules.

Call sites are guarded inline, so that a run without hooks costs one attribute access:

    if hooks.active:
        hooks.api_call(call)

pluggy finds, checks and orders the implementations. They are called one by one here, since a
failing one must not affect the call that it observes, or the other implementations.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING

import msgspec

from dovetail.errors import DovetailError, PluginError, suggest_name
from dovetail.plugins import registry
from dovetail.plugins.events import ApiCall, NodeExecuted, PassFinished, Progress

if TYPE_CHECKING:
    import pluggy

GROUP = "dovetail.hooks"
PREFIX = "dovetail_"

_log = logging.getLogger(__name__)


class _Listener(msgspec.Struct, frozen=True):
    """One implementation of one hook."""

    plugin: object
    label: str
    call: Callable[[object], object]


class Hooks:
    """The registered hook plugins.

    Attributes:
        active: Whether any plugin is registered, or may be by the next event.
    """

    def __init__(self) -> None:
        self.active = False
        self._lock = threading.RLock()
        self._installing = threading.RLock()
        self._expected = False  # installed plugins, by the first event
        self._loading = False
        self._manager: pluggy.PluginManager | None = None
        self._asked: set[FunctionType] = set()  # functions that returned their hooks, or None
        # Replaced as a whole, never changed: events read it without a lock.
        self._listeners: Mapping[str, tuple[_Listener, ...]] = {}

    # -- registration ----------------------------------------------------------------------------

    def register(self, plugin: object) -> None:
        """Add a module or object whose functions are marked with `hookimpl`.

        Raises:
            PluginError: The plugin has unknown hooks or hooks with other arguments, hooks that are
                not marked, wrappers, or no hooks at all; or it is registered already.
        """
        with self._lock:
            manager = self._get_manager()
            if manager.is_registered(plugin):
                raise _error(plugin, "already registered", code="PLUGIN_CONFLICT")
            try:
                _register(manager, plugin)
            except BaseException:
                if manager.is_registered(plugin):
                    manager.unregister(plugin)
                raise
            self._update(manager)

    def unregister(self, plugin: object) -> None:
        """Remove a plugin; nothing happens if it is not registered."""
        with self._lock:
            if self._manager is not None and self.is_registered(plugin):
                self._manager.unregister(plugin)
                self._update(self._manager)

    def is_registered(self, plugin: object) -> bool:
        """Return whether a plugin is registered."""
        with self._lock:
            return self._manager is not None and self._manager.is_registered(plugin)

    @contextmanager
    def registered(self, plugin: object) -> Iterator[None]:
        """Register a plugin for the duration of a `with` block.

        Raises:
            PluginError: As `register`.
        """
        self.register(plugin)
        try:
            yield
        finally:
            self.unregister(plugin)

    def expect_installed(self) -> None:
        """Let the next event register the installed hook plugins that are not registered yet.

        Broken plugins are left out with a warning.
        """
        with self._lock:
            self._expected = self.active = True

    # -- events ----------------------------------------------------------------------------------

    def api_call(self, call: ApiCall) -> None:
        """Notify hooks that an API call is about to start."""
        self._notify("dovetail_api_call", call)

    def api_return(self, call: ApiCall) -> None:
        """Notify hooks that an API call returned or failed."""
        self._notify("dovetail_api_return", call)

    def api_complete(self, call: ApiCall) -> None:
        """Notify hooks that an asynchronous execution ended."""
        self._notify("dovetail_api_complete", call)

    def pass_finished(self, event: PassFinished) -> None:
        """Notify hooks that a pass finished on a graph."""
        self._notify("dovetail_pass_finished", event)

    def node_executed(self, event: NodeExecuted) -> None:
        """Notify hooks that a step of a watched run finished."""
        self._notify("dovetail_node_executed", event)

    def progress(self, event: Progress) -> None:
        """Notify hooks of the progress of a long task."""
        self._notify("dovetail_progress", event)

    # -- inside ----------------------------------------------------------------------------------

    def _load_installed(self) -> None:
        with self._installing:  # other threads wait, so that no plugin misses their events
            if self._loading or not self._expected:
                return  # a hook plugin may use dovetail while it is imported
            self._loading = True
            try:
                for name, plugin in registry.load_all(GROUP).items():
                    if isinstance(plugin, FunctionType):
                        self._ask(name, plugin)
                    elif not self.is_registered(plugin):  # by hand, or before a refresh
                        self.register(plugin)
            finally:
                self._loading = False
            with self._lock:
                self._expected = False
                self.active = bool(self._listeners)

    def _ask(self, name: str, function: FunctionType) -> None:
        """Register what a function returns, once in a process; None if it has no hooks here."""
        if function in self._asked:
            return
        self._asked.add(function)
        try:
            plugin = function()
            if plugin is not None:
                self.register(plugin)
        except (Exception, SystemExit) as error:  # noqa: BLE001  quarantine, as for imports
            text = error.message if isinstance(error, DovetailError) else str(error)
            registry.leave_out(GROUP, name, f"{type(error).__name__}: {text}")

    def _notify(self, hook: str, event: object) -> None:
        if self._expected:
            self._load_installed()
        for listener in self._listeners.get(hook, ()):
            try:
                listener.call(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001  a hook never harms the call
                self._detach(listener, hook, error)

    def _detach(self, listener: _Listener, hook: str, error: BaseException) -> None:
        with self._lock:
            manager = self._manager
            if manager is None or not manager.is_registered(listener.plugin):
                return  # another thread has reported the failure
            self.unregister(listener.plugin)
        _log.error(
            "%s failed in %s and was detached: %s: %s",
            listener.label,
            hook,
            type(error).__name__,
            error,
            exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
        )

    def _get_manager(self) -> pluggy.PluginManager:
        if self._manager is None:
            # imported here: start-up must be fast, and most processes have no hooks
            import pluggy

            from dovetail.plugins import hookspecs

            self._manager = pluggy.PluginManager(hookspecs.PROJECT)
            self._manager.add_hookspecs(hookspecs)
        return self._manager

    def _update(self, manager: pluggy.PluginManager) -> None:
        self._listeners = {
            hook: tuple(_listener(impl) for impl in reversed(caller.get_hookimpls()))
            for hook, caller in vars(manager.hook).items()
            if caller.get_hookimpls()
        }
        self.active = bool(self._listeners) or self._expected


def _register(manager: pluggy.PluginManager, plugin: object) -> None:
    """Register with pluggy, and raise for faults that pluggy accepts."""
    import pluggy  # loaded already

    unmarked = [
        name
        for name in dir(plugin)
        if name.startswith(PREFIX)
        and callable(getattr(plugin, name))  # a module may import a package of ours
        and manager.parse_hookimpl_opts(plugin, name) is None
    ]
    if unmarked:
        raise _error(plugin, f"not marked with hookimpl: {', '.join(unmarked)}")
    try:
        manager.register(plugin)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise _error(plugin, str(error), hint=_hint(manager, plugin)) from error
    callers = manager.get_hookcallers(plugin) or []
    if not callers:
        raise _error(plugin, "no hook is implemented")
    for caller in callers:
        for impl in caller.get_hookimpls():
            if impl.plugin is plugin and (impl.hookwrapper or impl.wrapper):
                raise _error(plugin, f"{caller.name} is a wrapper; hooks only observe")


def _hint(manager: pluggy.PluginManager, plugin: object) -> str:
    callers = manager.get_hookcallers(plugin) or []
    known = [name for name, caller in vars(manager.hook).items() if caller.has_spec()]
    unknown = [caller.name for caller in callers if not caller.has_spec()]
    return "; ".join(f"{name}: {suggest_name(name, known)}" for name in unknown)


def _error(
    plugin: object, message: str, *, code: str = "PLUGIN_BROKEN", hint: str = ""
) -> PluginError:
    return PluginError(message, code=code, where=f"hook plugin {_label(plugin)}", hint=hint)


def _listener(impl: pluggy.HookImpl) -> _Listener:
    function = impl.function
    # Every hook has one argument, which an implementation may omit.
    call = function if impl.argnames else (lambda _event: function())
    return _Listener(impl.plugin, f"hook plugin {_label(impl.plugin)}", call)


def _label(plugin: object) -> str:
    return str(getattr(plugin, "__name__", type(plugin).__qualname__))


hooks = Hooks()
hooks.expect_installed()
registry.on_refresh(hooks.expect_installed)
