"""`dovetail export`: a model becomes a file of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A .dvt file, or any model that can be converted.")],
    output_path: Annotated[
        Path, typer.Option("-o", "--output-path", metavar="FILE", help="Where the model goes.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "-f",
            "--format",
            metavar="NAME",
            help="The exporter; `dovetail plugins` lists those that are installed.",
        ),
    ] = "onnx-qdq",
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="NAME", help="Which graph, where the model has several."),
    ] = None,
    external_data: Annotated[
        bool,
        typer.Option(
            "--external-data",
            help="Write weights to a file beside the model even where this can hold them.",
        ),
    ] = False,
) -> None:
    """Write a model in another format: by default ONNX that ONNX Runtime runs.

    A quantized tensor becomes a QuantizeLinear and a DequantizeLinear; inputs and outputs are real
    values. Where the written model differs from the graph, that is listed. The file appears only
    when all of it is written.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._export import export_file

    export_file(model, output_path, format, graph, external_data=external_data)
