"""Plugins: named objects come from entry points (`registry`), events go to hooks (`hooks`).

Only the registry is imported here: `hooks`, `hookspecs` and `ops` are separate modules, so that
listing commands for `dovetail --help` loads neither pluggy nor numpy.
"""

from dovetail.plugins._found import Plugin, Status
from dovetail.plugins._groups import COMMAND_HELP, COMMANDS, GROUPS
from dovetail.plugins.registry import (
    Registry,
    leave_out,
    list_plugins,
    load,
    load_all,
    load_usable,
    names,
    on_refresh,
    probe,
    refresh,
)

__all__ = [
    "COMMANDS",
    "COMMAND_HELP",
    "GROUPS",
    "Plugin",
    "Registry",
    "Status",
    "leave_out",
    "list_plugins",
    "load",
    "load_all",
    "load_usable",
    "names",
    "on_refresh",
    "probe",
    "refresh",
]
