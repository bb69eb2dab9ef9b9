"""`dovetail plugins`: what is installed, and in which state."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dovetail.cli.output import current_output, table
from dovetail.errors import ConfigError, unknown_name
from dovetail.plugins import COMMAND_HELP, GROUPS, Plugin, list_plugins, probe

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PREFIX = "dovetail."


@app.command()
def plugins(
    group: Annotated[
        str | None, typer.Option(help="Only this group; `dovetail.` may be left out.")
    ] = None,
    load: Annotated[
        bool, typer.Option("--load", help="Load each plugin to see if it can.")
    ] = False,
) -> None:
    """List all plugins with their dist, version and status.

    Nothing is imported, unless --load is given: `unloaded` means that a plugin was found and not
    tried. The environment variable DOVETAIL_PLUGINS restricts the plugins to those whose dist or
    name it lists, separated by commas; core's own commands always stay.
    """
    found = list_plugins(None if group is None else _full_name(group))
    if group is None:  # lines of help are no plugins of their own
        found = tuple(p for p in found if p.group != COMMAND_HELP)
    if load:
        found = tuple(_probed(p) for p in found)
    current_output().data({"plugins": [asdict(p) for p in found]}, _text(found))


def _full_name(group: str) -> str:
    short = group.replace("-", "_")
    for name in (group, short, _PREFIX + short):
        if name in GROUPS:
            return name
    names = [name.removeprefix(_PREFIX) for name in GROUPS]
    hint = unknown_name(short.removeprefix(_PREFIX), names)
    raise ConfigError(f"there is no plugin group '{group}'", code="USAGE", hint=hint)


def _probed(plugin: Plugin) -> Plugin:
    return probe(plugin.group, plugin.name) if plugin.is_usable else plugin


def _text(found: tuple[Plugin, ...]) -> str:
    if not found:
        return "no plugin is installed"
    rows = [
        (p.group.removeprefix(_PREFIX), p.name, p.dist, p.version, p.status, p.reason)
        for p in found
    ]
    return table(("GROUP", "NAME", "DIST", "VERSION", "STATUS", "REASON"), rows)
