"""`dovetail export`: export of a model to another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.exporter_options import ExporterOptions

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A .dvt file, or a model that can be converted.")],
    output_path: Annotated[
        Path,
        typer.Option("-o", "--output-path", metavar="FILE", help="Path of the exported model."),
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="NAME",
            help="The exporter; by default the one for the suffix of the file, for .onnx onnx-qdq. "
            "`dovetail plugins` lists the installed ones.",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="NAME",
            help="The graph to export, if the model has several; by default all, which a .dlc can "
            "have.",
        ),
    ] = None,
    external_data: Annotated[
        bool,
        typer.Option(
            "--external-data",
            help="Write weights to a file next to the model in any case.",
        ),
    ] = False,
    exporter_option: ExporterOptions = None,
) -> None:
    """Write a model in another format, which the suffix of the file selects.

    In ONNX, a quantized tensor becomes a QuantizeLinear and a DequantizeLinear; inputs and outputs
    are real values. Differences between the exported model and the graph are listed, and so are
    all files if there are several. They appear only when they are complete.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._export import export_file

    texts = [*(exporter_option or ()), *(["external_data=true"] if external_data else [])]
    export_file(model, output_path, format, graph, texts)
