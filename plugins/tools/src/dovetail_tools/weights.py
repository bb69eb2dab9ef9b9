"""`dovetail weights`: comparison of the weights of two files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

_FILE = (
    "A .dvt file, a context binary with models, a section, a converter's .bin, or a model that can "
    "be converted."
)


@app.callback()
def weights() -> None:
    """Compare the weights of models and context binaries."""


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=_FILE)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one, or the same.")],
    first_graph: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare only this graph of A.")
    ] = None,
    second_graph: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare only this graph of B.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="End with exit code 1 if anything differs.")
    ] = False,
) -> None:
    """Compare weights by name and by content.

    Weights of the same name are shared by graphs of one context binary if bytes, types, shapes and
    encodings agree. For the others, the differences, MD5 and cosine similarity are shown.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._weight_report import report_weights

    is_equal = report_weights(first, second, (first_graph, second_graph))
    if check and not is_equal:
        raise typer.Exit(1)
