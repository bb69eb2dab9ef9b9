"""`dovetail diff`: comparison of two models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.errors import ConfigError, ExitCode

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_FILE = "A .dvt file, a context binary with models, or a model that can be converted."


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help=_FILE)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    structure_only: Annotated[
        bool, typer.Option("--structure-only", help="Do not compare weights; none are read.")
    ] = False,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Compare nothing but weights.")
    ] = False,
    rtol: Annotated[
        float, typer.Option(min=0.0, help="Tolerance of weights, relative to those of B.")
    ] = 0.0,
    atol: Annotated[float, typer.Option(min=0.0, help="Absolute tolerance of weights.")] = 0.0,
) -> int:
    """Compare two models: graphs, inputs and outputs, nodes and their tensors, and weights.

    Nodes are matched by name, then by the names of their sources in the user's model, then by their
    position in the topology. The exit code is 1 if anything differs.
    """
    if structure_only and weights_only:
        raise ConfigError(
            "--structure-only and --weights-only are mutually exclusive",
            code="USAGE",
            where="dovetail diff",
            hint="omit both to compare everything",
        )
    # imported here: the help needs no numpy
    from dovetail_tools._model_diff.comparison import Scope
    from dovetail_tools._model_diff.report import report_diff
    from dovetail_tools._model_diff.weights import Tolerance

    scope = Scope(not weights_only, not structure_only, Tolerance(rtol, atol))
    return ExitCode.OK if report_diff(first, second, scope) else ExitCode.CHECK_FAILED
