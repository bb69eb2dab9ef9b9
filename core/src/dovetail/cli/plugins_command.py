"""`dovetail plugins`: the installed plugins, their states, and what backends support."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from dovetail.cli.output import current_output, table
from dovetail.errors import ConfigError, suggest_name
from dovetail.plugins import COMMAND_HELP, GROUPS, Plugin, list_plugins, probe
from dovetail.runtime.base import BackendBase
from dovetail.runtime.installed import backend_class
from dovetail.runtime.names import backend_name, split_arch

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_PREFIX = "dovetail."
_OP_PACKAGES = "dovetail.op_packages"
_NOTES = """\
Kernels that backends have themselves, and importers of a frontend's own, are not listed.
A node of another domain becomes an op of the first match: a package of --op-packages with an op of
its name; the importers of its domain; the package that has the name of the domain."""


@dataclass(frozen=True, slots=True)
class _Served:
    """An op package, and the plugins that provide kernels and importers for it.

    Attributes:
        name: Name of the package.
        dist: Dist that provides it.
        kernels: Dists with kernels for it, by backend.
        importers: Dists with importers, by FRONTEND:DOMAIN: for the package's name, or of its dist.
    """

    name: str
    dist: str
    kernels: dict[str, str]
    importers: dict[str, str]


@app.callback(invoke_without_command=True)
def plugins(
    context: typer.Context,
    group: Annotated[
        str | None, typer.Option(help="List only this group; `dovetail.` may be omitted.")
    ] = None,
    load: Annotated[
        bool,
        typer.Option(
            "--load", help="Load each plugin, and check it against the contract of its group."
        ),
    ] = False,
) -> None:
    """List all plugins with their dist, version and status.

    Nothing is imported unless --load is given: `unloaded` means that a plugin was found but not
    tried. The environment variable DOVETAIL_PLUGINS restricts the plugins to the dists and names
    that it lists, separated by commas; core's own commands are always enabled.

    A second table shows the kernels and importers of each op package.
    """
    if context.invoked_subcommand is not None:
        return
    found = list_plugins(None if group is None else _full_name(group))
    if group is None:  # lines of help belong to their commands
        found = tuple(p for p in found if p.group != COMMAND_HELP)
    if load:
        found = tuple(_probed(p) for p in found)
    served = [_served(p) for p in found if p.group == _OP_PACKAGES]
    data = {"plugins": [p._asdict() for p in found], "op_packages": [asdict(s) for s in served]}
    current_output().data(data, _text(found, served))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a plugin, in any group.")],
    ops: Annotated[
        bool, typer.Option("--ops", help="List the ops and types that a backend supports.")
    ] = False,
) -> None:
    """Load the plugins of a name, and show their states.

    With --ops, list each op of a backend with the combinations of types that it takes; with a name
    such as htp:v68, those of this architecture. A backend that lists none accepts what it can run,
    one node at a time.
    """
    backend, arch = split_arch(backend_name(name))
    found = tuple(_probed(p) for p in list_plugins() if p.name in (name, backend))
    if not found:
        hint = suggest_name(name, {p.name for p in list_plugins()})
        raise ConfigError(f"plugin '{name}' not found", code="USAGE", hint=hint)
    table_of = _type_table(backend, arch) if ops else {}
    text = _text(found, [])
    if ops and table_of:
        rows = [(op, types) for op, combinations in table_of.items() for types in combinations]
        text += f"\n\n{table(('OP', 'TYPES'), rows)}"
    elif ops:
        text += f"\n\nbackend '{backend}' has no table of types: it accepts what it can run"
    current_output().data({"plugins": [p._asdict() for p in found], "ops": table_of}, text)


def _type_table(backend: str, arch: str | None) -> dict[str, tuple[str, ...]]:
    found = backend_class(backend)
    return dict(found.type_table(arch)) if issubclass(found, BackendBase) else {}


def _full_name(group: str) -> str:
    short = group.replace("-", "_")
    for name in (group, short, _PREFIX + short):
        if name in GROUPS:
            return name
    names = [name.removeprefix(_PREFIX) for name in GROUPS]
    hint = suggest_name(short.removeprefix(_PREFIX), names)
    raise ConfigError(f"plugin group '{group}' not found", code="USAGE", hint=hint)


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
        return "no plugins are installed"
    rows = [
        (p.group.removeprefix(_PREFIX), p.name, p.dist, p.version, p.status, p.reason)
        for p in found
    ]
    listed = table(("GROUP", "NAME", "DIST", "VERSION", "STATUS", "REASON"), rows)
    if not served:
        return listed
    more = [(s.name, _by(s.kernels), _by(s.importers)) for s in served]
    packages = table(("OP PACKAGE", "KERNELS FOR", "IMPORTERS OF"), more)
    return f"{listed}\n\n{packages}\n\n{_NOTES}"


def _by(dists: dict[str, str]) -> str:
    return ", ".join(f"{name} ({dist})" for name, dist in dists.items()) or "-"
