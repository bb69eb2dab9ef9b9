"""`dovetail context`: comparison and renewal of context binaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.op_package_option import OpPackages
from dovetail_tools._shared_options import BackendName, ConfigFile, PlatformOptions

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def context() -> None:
    """Compare context binaries, and prepare their graphs again."""


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A context binary or section.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    check: Annotated[
        bool, typer.Option("--check", help="End with exit code 1 if anything differs.")
    ] = False,
) -> None:
    """Show how two context binaries differ: manifests, graphs, inputs and outputs, weights.

    Weights are compared if both files have them: models of all graphs, or updated tensors.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._context_diff import report_diff

    is_equal = report_diff(first, second)
    if check and not is_equal:
        raise typer.Exit(1)


@app.command()
def upgrade(
    file: Annotated[Path, typer.Argument(help="A context binary with models.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="The new one; it may be the same."),
    ],
    backend: BackendName = None,
    config_file: ConfigFile = None,
    platform_options: PlatformOptions = None,
    op_packages: OpPackages = None,
) -> None:
    """Prepare the graphs of a context binary again, from the models in it.

    For a file that was created by another version, with other options or on another machine
    (RECOMPILE). Settings, outputs and observed tensors of the graphs stay as they are. The new file
    appears when it is complete.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._context_upgrade import upgrade_context

    upgrade_context(file, output, backend, config_file, platform_options, op_packages)
