"""`dovetail architecture-checker`: advice on what makes a network slow on its target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from dovetail.cli.given_model import given_model
from dovetail.cli.input_format_option import InputFormat
from dovetail_tools._pairs import Counts, PairCommand, split_values

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Command(PairCommand):
    counts: ClassVar[Counts] = {"modify": (0, 1)}


@app.command(cls=_Command)
def architecture_checker(
    model: Annotated[
        Path | None,
        typer.Argument(help="A .dvt file, or a model that can be converted; before --modify."),
    ] = None,
    input_json: Annotated[
        Path | None,
        typer.Option(
            "-i", "--input-json", "--input-dlc", metavar="FILE", help="The model, as an option."
        ),
    ] = None,
    bin: Annotated[
        Path | None,
        typer.Option(
            "-b",
            "--bin",
            metavar="FILE",
            help="The .bin with the weights of a _net.json; by default the one next to it.",
        ),
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output-path",
            metavar="FOLDER",
            help="Folder for the files; by default that of the model.",
        ),
    ] = None,
    modify: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--modify",
            metavar="[show|all|apply=RULE,...]",
            help="Show the possible modifications, or write a model with all of them, or with "
            "those of some rules. Some change results: train the network again.",
        ),
    ] = None,
    input_format: InputFormat = None,
) -> None:
    """Show which nodes make a network slow on an HTP, why, and what to do; write it as a CSV file.

    The file is MODEL_architecture_checker.csv. The rules are those of the installed plugins. The
    exit code is 0 whatever they find.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._architecture import CheckRequest, check_model

    source = given_model(model, input_json, "--input-json")
    values = None if modify is None else [v for use in modify for v in split_values(use) or ("",)]
    check_model(CheckRequest(source, bin, output_path, values, input_format))
