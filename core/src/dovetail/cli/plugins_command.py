"""`dovetail plugins`: what is installed, and in which state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from dovetail.cli.output import current_output, table
from dovetail.errors import ConfigError, suggest_name
from dovetail.plugins import COMMAND_HELP, GROUPS, Plugin, list_plugins, probe

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PREFIX = "dovetail."
_OP_PACKAGES = "dovetail.op_packages"
_PRIORITY = """\
A node of a foreign domain becomes an op of, in this order: a package brought with --op-packages,
by the op's name; what the importers of its domain make; the package of the domain's name."""


@dataclass(frozen=True, slots=True)
class _Served:
    """An op package and what other plugins bring for it.

    Attributes:
        name: Of the package.
        dist: That brings it.
        kernels: Dists with kernels for it, by backend.
        importers: Dists with importers, as FRONTEND:DOMAIN: of its name, or of its dist.
    """

    name: str
    dist: str
    kernels: dict[str, str]
    importers: dict[str, str]


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

    Of op packages it also says which kernels and importers serve them, and who wins a node.
    """
    found = list_plugins(None if group is None else _full_name(group))
    if group is None:  # lines of help are no plugins of their own
        found = tuple(p for p in found if p.group != COMMAND_HELP)
    if load:
        found = tuple(_probed(p) for p in found)
    served = [_served(p) for p in found if p.group == _OP_PACKAGES]
    data = {"plugins": [asdict(p) for p in found], "op_packages": [asdict(s) for s in served]}
    current_output().data(data, _text(found, served))


def _full_name(group: str) -> str:
    short = group.replace("-", "_")
    for name in (group, short, _PREFIX + short):
        if name in GROUPS:
            return name
    names = [name.removeprefix(_PREFIX) for name in GROUPS]
    hint = suggest_name(short.removeprefix(_PREFIX), names)
    raise ConfigError(f"there is no plugin group '{group}'", code="USAGE", hint=hint)


def _probed(plugin: Plugin) -> Plugin:
    return probe(plugin.group, plugin.name) if plugin.is_usable else plugin


def _served(package: Plugin) -> _Served:
    kernels = {}
    for plugin in list_plugins("dovetail.kernels"):
        backend, _, name = plugin.name.partition(":")
        if name == package.name:
            kernels[backend] = plugin.dist
    importers = {
        plugin.name: plugin.dist
        for plugin in list_plugins("dovetail.importers")
        if plugin.dist == package.dist or plugin.name.partition(":")[2] == package.name
    }
    return _Served(package.name, package.dist, kernels, importers)


def _text(found: tuple[Plugin, ...], served: list[_Served]) -> str:
    if not found:
        return "no plugin is installed"
    rows = [
        (p.group.removeprefix(_PREFIX), p.name, p.dist, p.version, p.status, p.reason)
        for p in found
    ]
    listed = table(("GROUP", "NAME", "DIST", "VERSION", "STATUS", "REASON"), rows)
    if not served:
        return listed
    more = [(s.name, _by(s.kernels), _by(s.importers)) for s in served]
    packages = table(("OP PACKAGE", "KERNELS FOR", "IMPORTERS OF"), more)
    return f"{listed}\n\n{packages}\n\n{_PRIORITY}"


def _by(dists: dict[str, str]) -> str:
    return ", ".join(f"{name} ({dist})" for name, dist in dists.items()) or "-"
