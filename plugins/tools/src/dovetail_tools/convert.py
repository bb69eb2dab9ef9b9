"""`dovetail convert`: conversion of a model file to a .dvt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from dovetail.cli.configuration_option import shows_configuration
from dovetail.cli.given_model import given_model
from dovetail.cli.input_format_option import InputFormat
from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail.cli.output import current_output
from dovetail.cli.output_format_option import OutputFormat
from dovetail.cli.quantization_options import DumpEncodingJson, ShowReport, takes_quantization
from dovetail_tools._artefact_options import ARTEFACT
from dovetail_tools._errors import usage
from dovetail_tools._export_options import EXPORT, with_export_options
from dovetail_tools._graph_options import GRAPH
from dovetail_tools._interface_options import INTERFACE
from dovetail_tools._option_groups import takes
from dovetail_tools._pairs import Choices, Counts, PairCommand, split_pairs

DRY_RUNS = ("info", "debug")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Command(PairCommand):
    pairs = ("input_dim", "input_value", "define_symbol")
    counts: ClassVar[Counts] = {**INTERFACE.counts, "dry_run": (0, 1)}
    choices: ClassVar[Choices] = {"dry_run": DRY_RUNS}  # `--dry-run MODEL` names a model


@app.command(cls=_Command)
@takes_quantization
@shows_configuration
@takes(INTERFACE, GRAPH, EXPORT, ARTEFACT)
def convert(
    model: Annotated[
        Path | None,
        typer.Argument(help="The model to convert; before options that take several values."),
    ] = None,
    *,
    input_network: Annotated[
        Path | None,
        typer.Option("-i", "--input-network", metavar="FILE", help="The model, as an option."),
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output-path",
            metavar="FILE",
            help="The file to write: a .dvt, or another suffix that an exporter has, such as "
            ".dlc. By default the model's name with the suffix .dvt.",
        ),
    ] = None,
    output_format: OutputFormat = None,
    input_dim: Annotated[
        list[str] | None,
        typer.Option(
            "-d",
            "--input-dim",
            "--desired-input-shape",
            "--source-model-input-shape",
            metavar="NAME DIMS",
            help="Shape of an input, for example `data 1,224,224,3`; may be repeated. Of several "
            "shapes of one input there is a graph each.",
        ),
    ] = None,
    input_value: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME VALUE",
            help="Value of an input, which becomes a constant: a number, or an array in JSON, for "
            "example `rate 16000` or `sizes [1,8]`; may be repeated.",
        ),
    ] = None,
    define_symbol: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--define-symbol",
            "--onnx-define-symbol",
            metavar="NAME VALUE",
            help="Value of a symbolic dimension, for example `height 224`; may be repeated.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "-b",
            "--batch",
            "--onnx-batch",
            "--onnx-override-batch",
            metavar="N",
            help="First dimension of every input that --input-dim does not name; a later one "
            "if the batch is there by its name, as in (2, batch, 128).",
        ),
    ] = None,
    out_node: Annotated[
        list[str] | None,
        typer.Option(
            "--out-node",
            "--out-name",
            "--out-tensor-node",
            "--out-tensor-name",
            metavar="TENSOR",
            help="A tensor at which the model is cut and that becomes an output; may be repeated.",
        ),
    ] = None,
    dropout: Annotated[
        str | None,
        typer.Option(
            metavar="on|off",
            help="With off, operators that drop elements in training mode do nothing.",
        ),
    ] = None,
    frontend_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Another option of the frontend that reads the model; may be repeated.",
        ),
    ] = None,
    graph_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the graph; by default the file's name without suffix. Models that run "
            "together need different names.",
        ),
    ] = None,
    no_simplification: Annotated[
        bool,
        typer.Option(
            "-n",
            "--no-simplification",
            "--onnx-no-simplification",
            "--onnx-skip-simplification",
            help="Run no passes but those that --passes adds: the graph has the nodes that "
            "the frontend reads.",
        ),
    ] = False,
    passes: Annotated[
        str,
        typer.Option(
            metavar="CHANGE[,CHANGE ...]",
            help="Passes to remove, to add or to change, for example "
            "`-fold-batchnorm,+my-pass{limit=3}`; "
            "--dry-run shows the result.",
        ),
    ] = "",
    op_packages: OpPackages = None,
    converter_op_package_lib: Annotated[
        str | None,
        typer.Option(
            "-cpl",
            "--converter-op-package-lib",
            metavar="MODULE[:ATTRIBUTE][,...]",
            help="More op packages, as for --op-packages: shapes and types that an op infers "
            "replace those that the model declares.",
        ),
    ] = None,
    op_package_config: Annotated[
        list[Path] | None,
        typer.Option(
            "-opc",
            "--op-package-config",
            metavar="XML [XML ...]",
            help="QNN's definitions of ops without code, used like --op-packages. The converted "
            "model runs once an op package provides the code.",
        ),
    ] = None,
    input_list: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Input list, as for net-run: the model is quantized with its samples.",
        ),
    ] = None,
    use_native_input_files: Annotated[
        bool,
        typer.Option(
            "--use-native-input-files",
            "--use-native-dtype",
            help="Raw inputs have values of the graph's types instead of float32.",
        ),
    ] = False,
    input_format: InputFormat = None,
    lora_weight_list: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Names of constants, one in each line, that stay updateable: the weights of LoRA "
            "adapters.",
        ),
    ] = None,
    quant_updatable_mode: Annotated[
        str,
        typer.Option(
            metavar="none|adapter_only|all|float_only",
            help="Tensors whose encodings adapters may replace: none or float_only, those that "
            "only adapters compute, or all.",
        ),
    ] = "none",
    cache_overrides: Annotated[
        bool,
        typer.Option(
            "--cache-overrides",
            help="Only store the encodings of --quantization-overrides in the float model, which "
            "`dovetail quantize` uses later.",
        ),
    ] = False,
    strip_quant_nodes: Annotated[
        bool,
        typer.Option(
            "--strip-quant-nodes",
            help="Remove the model's nodes that quantize and dequantize, unless --keep-quant-nodes "
            "is given, and store their encodings in the float model, which `dovetail quantize` "
            "uses later.",
        ),
    ] = False,
    dry_run: Annotated[
        list[str] | None,
        typer.Option(
            "--dry-run",
            metavar=f"[{'|'.join(DRY_RUNS)}]",
            help="Write nothing; show the passes in order, the operators of the model, why any of "
            "them cannot be converted (then the exit code is not 0), and unused inputs. With "
            "debug, the ops of each operator in place of these tables.",
        ),
    ] = None,
    dump_encoding_json: DumpEncodingJson = False,
    arch_checker: Annotated[
        bool,
        typer.Option(
            "--arch-checker",
            help="Write a CSV file about what is slow on an HTP, as `dovetail "
            "architecture-checker` does.",
        ),
    ] = False,
    report: ShowReport = False,
    interface: Mapping[str, Any],
    graph: Mapping[str, Any],
    export: Mapping[str, Any],
    artefact: Mapping[str, Any],
    quantization: Mapping[str, Any],
) -> None:
    """Convert a model file to a Dovetail model.

    The format is found by the file's suffix, then by its content, unless --input-format names the
    frontend. The file appears only when it is
    complete. With --input-list, --quantization-overrides, --float-fallback,
    --keep-weights-quantized or --float-bitwidth 16 the model is also quantized, as by `dovetail
    quantize`, whose options are the last ones below.
    `dovetail explain compat` lists the SDK's options that do not exist here.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._conversion import (
        Conversion,
        convert_file,
        ops_with,
        target_file,
    )
    from dovetail_tools._converter import FurtherOptions, read_options
    from dovetail_tools._dry_run import dry_run_value, show_dry_run
    from dovetail_tools._frontend_options import FrontendTexts
    from dovetail_tools._lora import updatable_mode, updateable_names
    from dovetail_tools._quantization import QuantizationRequest

    if op_package_config and export["package_name"] is not None:
        raise usage(
            "--package-name and --op-package-config are mutually exclusive",
            where=current_output().command,
            hint="the definitions have a package of their own; omit --package-name",
        )
    source = given_model(model, input_network, "--input-network")
    request = QuantizationRequest(
        input_list,
        quantization,
        native=use_native_input_files,
        only_states=cache_overrides,
        strips=strip_quant_nodes,
        dump=dump_encoding_json,
        show=report,
    )
    texts = FrontendTexts(
        split_pairs(input_dim),
        split_pairs(input_value),
        split_pairs(define_symbol),
        {
            "batch": batch,
            "out_names": tuple(out_node or ()),
            "dropout": dropout,
            "keep_disconnected": graph["keep_disconnected_nodes"] or None,
            "updateable": updateable_names(lora_weight_list),
        },
        frontend_option or (),
    )
    further = FurtherOptions(interface, graph, artefact)
    found = read_options(source, input_format, texts, further, request)
    conversion = Conversion(
        source,
        found.options,
        ops_with(
            (
                *split_list(op_packages, "--op-packages"),
                *split_list(converter_op_package_lib, "--converter-op-package-lib"),
            ),
            op_package_config or (),
        ),
        input_format,
        graph_name=graph_name,
        shapes=found.shapes,
        before=found.before,
        after=found.after,
        passes=found.passes(passes, optimize=not no_simplification),
        optimize=not no_simplification,
        artefact=found.artefact,
        mode=updatable_mode(quant_updatable_mode, is_quantized=request.wanted),
    )
    if found.templates:
        found.write_templates(conversion)
    elif dry_run is not None:
        show_dry_run(conversion, is_detailed=dry_run_value(dry_run) == "debug")
    else:
        file = target_file(source, output_path, output_format)
        file = with_export_options(file, export, graph["op_style"])
        convert_file(conversion, file, found.quantization(request), check=arch_checker)
