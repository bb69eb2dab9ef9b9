"""The dist that an unexpected exception comes from: a third party or a part of Dovetail."""

from __future__ import annotations

import traceback

from dovetail.errors import PluginError
from dovetail.plugins import COMMAND_HELP, Plugin, list_plugins

_OURS = "dovetail-"


def origin_of(error: BaseException) -> tuple[Plugin, ...]:
    """Return the plugins in whose code an exception was raised, all of one dist; empty for core.

    The innermost call of a plugin counts: core's functions that it called are not to blame for
    their arguments.
    """
    by_module: dict[str, list[Plugin]] = {}
    for plugin in list_plugins():
        if plugin.group != COMMAND_HELP:
            by_module.setdefault(plugin.value.partition(":")[0], []).append(plugin)
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", ""))
        if module in by_module:
            return tuple(by_module[module])
        package = module.partition(".")[0]
        found = [p for m, ps in by_module.items() if m.partition(".")[0] == package for p in ps]
        if found and package != "dovetail":
            return tuple(found)
    return ()


def third_party_error(error: Exception, origin: tuple[Plugin, ...]) -> PluginError | None:
    """Return the error to report if a third party's plugin raised; None for a part of Dovetail."""
    if not origin or origin[0].dist.startswith(_OURS):
        return None
    dist = f"dist {origin[0].dist} {origin[0].version}"
    one = f"{origin[0].group} '{origin[0].name}' ({dist})"
    failure = PluginError(
        f"the plugin's code failed: {type(error).__name__}: {error}",
        code="PLUGIN_FAILED",
        where=one if len(origin) == 1 else dist,
        hint=f"report it to the authors of {origin[0].dist}, with the traceback that "
        "`--log-level debug` prints",
    )
    failure.__cause__ = error
    return failure
