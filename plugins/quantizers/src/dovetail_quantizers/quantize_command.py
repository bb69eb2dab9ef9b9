"""The command `dovetail quantize`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail.cli.configuration_option import shows_configuration
from dovetail.cli.given_model import given_model
from dovetail.cli.map_weights_option import NoMapWeights
from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail.cli.output_format_option import OutputFormat
from dovetail.cli.quantization_options import DumpEncodingJson, ShowReport, takes_quantization

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@takes_quantization
@shows_configuration
def quantize(
    model: Annotated[
        Path | None,
        typer.Argument(help="The float model: a .dvt, or a file that can be converted."),
    ] = None,
    *,
    input_network: Annotated[
        Path | None,
        typer.Option(
            "-i",
            "--input-network",
            "--input-dlc",
            "--model",
            metavar="FILE",
            help="The float model, as an option.",
        ),
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output-path",
            "--output-dlc",
            metavar="FILE",
            help="The quantized model: a .dvt, or another suffix that an exporter has, such as "
            ".dlc. By default NAME.quantized.dvt next to the float model.",
        ),
    ] = None,
    output_format: OutputFormat = None,
    input_list: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,FILE]",
            help="Input lists for calibration, one per graph, in the format of net-run.",
        ),
    ] = None,
    use_native_input_files: Annotated[
        bool,
        typer.Option(
            "--use-native-input-files",
            help="Raw files contain values of the graph's types instead of float32.",
        ),
    ] = False,
    op_packages: OpPackages = None,
    no_map_weights: NoMapWeights = False,
    dump_encoding_json: DumpEncodingJson = False,
    report: ShowReport = False,
    quantization: Mapping[str, Any],
) -> None:
    """Quantize a model.

    The float model is run on samples of its inputs to find the range of each tensor. An encodings
    file replaces this for all tensors or for some. --json prints the decision for each tensor.
    """
    # imported here: the help needs no numpy
    from dovetail_quantizers.quantize_model import Files, quantize_model

    source = given_model(model, input_network, "--input-network")
    files = Files(
        source, output_path, dump_encoding_json, output_format, map_weights=not no_map_weights
    )
    references = split_list(op_packages, "--op-packages")
    quantize_model(
        files, input_list, quantization, references, native=use_native_input_files, show=report
    )
