"""`dovetail new-plugin`: a dist with a working plugin, to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, ContainerError
from dovetail_tools._new_folder import NewFolder, in_the_way, write_folders
from dovetail_tools._scaffold import (
    KINDS,
    Names,
    PluginKind,
    claim_faults,
    entry_points,
    form_faults,
    project_files,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def new_plugin(
    kind: Annotated[PluginKind, typer.Argument(metavar="KIND", help="Kind of the plugin.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the plugin, for example `my-npu`, or `my.ops` for an op package. Dist "
            "and module are named after it.",
        ),
    ],
    output_path: Annotated[
        Path,
        typer.Option(
            "-o", "--output-path", metavar="DIR", help="Folder in which the dist is created."
        ),
    ] = Path(),
) -> None:
    """Write a dist with a working plugin: source, tests, README, entry points.

    The plugin has a small real function and passes its tests once it is installed. The folder has
    the name of the dist and appears only when it is complete; a folder that is not empty is never
    replaced.
    """
    names = _checked(kind, name)
    folder = output_path / names.dist
    if problem := in_the_way(folder):
        raise ContainerError(
            problem.message, code="FILE_UNWRITABLE", where=problem.where, hint=problem.hint
        )
    files = project_files(kind, names)
    write_folders([NewFolder(folder, files)])
    _report(kind, names, folder, list(files))


def _checked(kind: PluginKind, name: str) -> Names:
    """Return the names of the dist.

    Raises:
        ConfigError: The name is not possible; lists every reason.
    """
    problems = form_faults(name)
    names = Names.of(name)
    if not problems:
        points = [(group, point) for group, point, _ in entry_points(KINDS[kind], names)]
        problems = list(claim_faults(names, points))
    if problems:
        raise ConfigError(
            f"invalid name {name!r} of {KINDS[kind].noun}",
            code="USAGE",
            problems=problems,
            hint="choose another name",
        )
    return names


def _report(kind: PluginKind, names: Names, folder: Path, files: list[str]) -> None:
    """Print the files written and the next commands."""
    points = entry_points(KINDS[kind], names)
    group = points[0][0].removeprefix("dovetail.").replace("_", "-")
    commands = [
        f"pip install -e {shlex.quote(f'{_shown(folder)}[test]')}",
        f"python -m pytest {shlex.quote(str(folder))}",
        f"dovetail plugins --group {group} --load",
    ]
    lines = [f"{folder}: {KINDS[kind].noun} '{names.name}'", *(f"  {file}" for file in files)]
    lines += ["next:", *(f"  {command}" for command in commands)]
    data = {
        "kind": kind.value,
        "name": names.name,
        "dist": names.dist,
        "module": names.module,
        "folder": str(folder),
        "files": files,
        "entry_points": [{"group": g, "name": n, "value": v} for g, n, v in points],
        "next": commands,
    }
    current_output().data(data, "\n".join(lines))


def _shown(folder: Path) -> str:
    """Return a path that pip reads as a folder: it would look up a bare name on an index."""
    return str(folder) if folder.is_absolute() else f"./{folder}"
