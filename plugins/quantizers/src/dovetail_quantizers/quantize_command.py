"""`dovetail quantize`: a float model becomes a fixed-point one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail.cli.quantization_options import DumpEncodingJson, ShowReport, takes_quantization

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@takes_quantization
def quantize(
    *,
    model: Annotated[
        Path,
        typer.Option(
            "-i",
            "--input-network",
            "--input-dlc",
            "--model",
            metavar="FILE",
            help="The float model: a .dvt, or a file that can be converted.",
        ),
    ],
    output_path: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output-path",
            "--output-dlc",
            metavar="FILE",
            help="Where the model goes; by default beside the float one, as NAME.quantized.dvt.",
        ),
    ] = None,
    input_list: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,FILE]",
            help="Lists of raw inputs to calibrate with, one a graph, as net-run takes them.",
        ),
    ] = None,
    use_native_input_files: Annotated[
        bool,
        typer.Option(
            "--use-native-input-files",
            help="Raw inputs hold values of the graph's types instead of float32.",
        ),
    ] = False,
    op_packages: OpPackages = None,
    dump_encoding_json: DumpEncodingJson = False,
    report: ShowReport = False,
    quantization: Mapping[str, Any],
) -> None:
    """Quantize a model.

    Samples of the inputs run through the float model, which tells the range of every tensor; an
    encodings file says it instead, or for some of them. --json prints what became of each tensor.
    """
    # imported here: the help needs no numpy
    from dovetail_quantizers.quantize_model import Files, quantize_model

    files = Files(model, output_path, dump_encoding_json)
    references = split_list(op_packages, "--op-packages")
    quantize_model(
        files, input_list, quantization, references, native=use_native_input_files, show=report
    )
