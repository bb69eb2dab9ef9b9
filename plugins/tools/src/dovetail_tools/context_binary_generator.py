"""`dovetail context-binary-generator`: models into one file of prepared graphs."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.input_format_option import InputFormat
from dovetail.cli.map_weights_option import NoMapWeights
from dovetail.cli.op_package_option import OpPackages
from dovetail_tools._shared_options import (
    BackendName,
    ConfigFile,
    DlcPath,
    ModelFiles,
    ModelPrefix,
    PlatformOptions,
    ProfilingOption,
    note_model_prefix,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Level(enum.StrEnum):
    BASIC = "basic"
    DETAILED = "detailed"
    BACKEND = "backend"


class _MemoryType(enum.StrEnum):
    RAW = "raw"
    MEMHANDLE = "memhandle"


@app.command()
def context_binary_generator(
    context: typer.Context,
    model: ModelFiles = None,
    dlc_path: DlcPath = None,
    backend: BackendName = None,
    binary_file: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the context binary, to which .bin is added if it is missing. Without it, "
            "the graphs are prepared and nothing is written.",
        ),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the files that are written.")
    ] = Path("output"),
    backend_binary: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of another file, with what the backend needs alone: no models, as with "
            "--no-embed-model.",
        ),
    ] = None,
    embed_model: Annotated[
        bool,
        typer.Option(
            "--embed-model/--no-embed-model",
            help="Whether the context binary has the models, too, so that it can be prepared again "
            "elsewhere and its tensors can be updated.",
        ),
    ] = True,
    enable_intermediate_outputs: Annotated[
        bool,
        typer.Option("--enable-intermediate-outputs", help="Make every computed tensor an output."),
    ] = False,
    set_output_tensors: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH:NAME[,NAME][;...]", help="Tensors that become outputs, in addition."
        ),
    ] = None,
    input_output_tensor_mem_type: Annotated[
        _MemoryType | None,
        typer.Option(
            help="Memory in which inputs and outputs will be passed: arrays (raw), or registered "
            "memory (memhandle). By default as the models say."
        ),
    ] = None,
    adapter_weight_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a section for each adapter of this config, NAME_ADAPTER.bin, which "
            "`net-run --adapter` applies.",
        ),
    ] = None,
    profiling_level: Annotated[
        _Level | None,
        typer.Option(
            help="Write qnn-profiling-data_0.log: times of preparation (basic), also what the "
            "backend measures in detail (detailed), or at a level of its own (backend)."
        ),
    ] = None,
    profiling_option: ProfilingOption = None,
    config_file: ConfigFile = None,
    op_packages: OpPackages = None,
    platform_options: PlatformOptions = None,
    model_prefix: ModelPrefix = None,
    no_map_weights: NoMapWeights = False,
    input_format: InputFormat = None,
) -> None:
    """Prepare models on a backend, and write them to a context binary.

    `dovetail net-run --retrieve-context`, `Session.from_context` and
    `Backend.create_context_from_binary` load it without preparation. Graphs of all models share
    weights that are equal. The file appears when it is complete, and replaces an earlier one.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._context_generator import generate, report, request_of

    request = request_of(context.params)
    note_model_prefix(model_prefix)
    report(generate(request))
