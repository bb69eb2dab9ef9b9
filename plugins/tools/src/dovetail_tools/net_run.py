"""`dovetail net-run`: runs of models on a backend, over lists of raw inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from dovetail.cli.input_format_option import InputFormat
from dovetail.cli.map_weights_option import NoMapWeights
from dovetail.cli.op_package_option import OpPackages
from dovetail_tools._net_run.options import request_of
from dovetail_tools._net_run.request import MemoryHandle, OutputData, Profiling
from dovetail_tools._pairs import Counts, PairCommand
from dovetail_tools._shared_options import (
    BackendName,
    ConfigFile,
    DlcPath,
    ModelFiles,
    ModelPrefix,
    PlatformOptions,
    ProfilingOption,
    note_model_prefix,
    note_without_effect,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Command(PairCommand):
    counts: ClassVar[Counts] = {"cache": (0, 1)}


@app.command(cls=_Command)
def net_run(
    context: typer.Context,
    input_list: Annotated[
        str,
        typer.Option(
            metavar="FILE[,FILE]",
            help="Input lists, one per graph, in order; __ skips a graph.",
        ),
    ],
    model: ModelFiles = None,
    dlc_path: DlcPath = None,
    retrieve_context: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A context binary, instead of models."),
    ] = None,
    backend: BackendName = None,
    output_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of the results; those of an earlier run are replaced."
        ),
    ] = Path("output"),
    use_native_input_files: Annotated[
        bool,
        typer.Option(
            "--use-native-input-files",
            help="Raw inputs have values of the graph's types instead of float32.",
        ),
    ] = False,
    native_input_tensor_names: Annotated[
        str | None,
        typer.Option(metavar="[GRAPH:]NAME[,NAME][;...]", help="The same, for these inputs only."),
    ] = None,
    use_native_output_files: Annotated[
        bool,
        typer.Option(
            "--use-native-output-files",
            help="The same as --output-data-type native_only.",
        ),
    ] = False,
    output_data_type: Annotated[
        OutputData | None,
        typer.Option(
            help="Write outputs as float32 to NAME.raw (float_only, the default), in the graph's "
            "types to NAME_native.raw (native_only), or both. What is float32 goes to NAME.raw.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Also write the outputs of every node.")
    ] = False,
    set_output_tensors: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH:NAME[,NAME][;...]", help="Tensors to write in addition to the outputs."
        ),
    ] = None,
    profiling_level: Annotated[
        Profiling | None,
        typer.Option(
            help="Write qnn-profiling-data_0.log: times of preparation and execution (basic), also "
            "of each node (detailed), or only the times measured by this command (client); backend "
            "is a level of the backend's own.",
        ),
    ] = None,
    profiling_option: ProfilingOption = None,
    chrome_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the profile for Perfetto and chrome://tracing."
        ),
    ] = None,
    graph_profiling_start_delay: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time from the first execution of a graph until profiling begins.",
        ),
    ] = None,
    graph_profiling_num_executions: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Maximum number of executions of a graph that are profiled."
        ),
    ] = None,
    config_file: ConfigFile = None,
    synchronous: Annotated[
        bool,
        typer.Option(
            "--synchronous",
            help="Read, execute and write in sequence. By default they overlap if the backend "
            "executes asynchronously and an execution takes 2 ms or more.",
        ),
    ] = False,
    num_inferences: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31 - 1,
            metavar="N",
            help="Number of inferences of each graph, in a loop over its list.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for which each list is repeated."),
    ] = None,
    keep_num_outputs: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Write only the first N results of each graph. Only the first loop is written.",
        ),
    ] = None,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="MICROSECONDS", help="Time limit of one inference; must be positive."
        ),
    ] = None,
    batch_multiplier: Annotated[
        int,
        typer.Option(
            min=1,
            max=2**16,
            metavar="N",
            help="Factor of the leading axes of inputs and outputs. The graph keeps its own, and "
            "is executed N times for each inference.",
        ),
    ] = 1,
    max_input_cache_tensor_sets: Annotated[
        int | None,
        typer.Option(
            min=-1,
            metavar="N",
            help="Number of input sets that stay in memory when lists are repeated; -1 for all.",
        ),
    ] = None,
    max_input_cache_size_mb: Annotated[
        int | None,
        typer.Option(min=0, metavar="MB", help="The same by size; an MB has 2^20 bytes."),
    ] = None,
    retrieve_context_timeout: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="MICROSECONDS", help="Time limit of loading the context binary."
        ),
    ] = None,
    cache: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[FOLDER]",
            help="Keep the prepared graphs of the models in a folder, and load them from there if "
            "they are in it; by default that of `dovetail cache`.",
        ),
    ] = None,
    use_mmap: Annotated[
        bool,
        typer.Option(
            "--use-mmap",
            help="Map the context binary into memory, which is the default; --no-map-weights "
            "reads it.",
        ),
    ] = False,
    validate_binary: Annotated[
        bool,
        typer.Option(
            "--validate-binary",
            help="Check every byte of the context binary, and that its graphs run here, first.",
        ),
    ] = False,
    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="An adapter to apply: its section is next to the context binary; or its name in "
            "--adapter-weight-config, or a .safetensors file, for models.",
        ),
    ] = None,
    adapter_weight_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A config of adapters.")
    ] = None,
    shared_buffer: Annotated[
        bool,
        typer.Option(
            "--shared-buffer",
            help="Register the buffers of inputs and outputs with the backend, so that it need not "
            "copy them.",
        ),
    ] = False,
    io_tensor_mem_handle_type: Annotated[
        MemoryHandle | None,
        typer.Option(
            help="Memory of the registered buffers on a device; here it is the host's in any case."
        ),
    ] = None,
    op_packages: OpPackages = None,
    platform_options: PlatformOptions = None,
    model_prefix: ModelPrefix = None,
    no_map_weights: NoMapWeights = False,
    input_format: InputFormat = None,
    perf_profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A performance profile of the SDK; it has no effect here."
        ),
    ] = None,
) -> None:
    """Run a model on a backend over a list of inputs.

    A line of the list is one set of inputs: `name:=path` pairs separated by spaces, or the bare
    path of the only input. A path with spaces is put in double quotes. Paths are relative to the
    working directory, then to the list. Files are little-endian, C order, float32. If the leading
    axis of all inputs is larger than 1 and the files have one element each, lines are combined; the
    last batch is padded with zeros. First lines `#node ...` or `%tensor ...` select the outputs.

    Results of line i are DIR/Result_i/TENSOR.raw, with several graphs
    DIR/GRAPH/Result_i/TENSOR.raw. They appear when all runs are complete, and replace all earlier
    results.
    """
    request = request_of(context.params)
    note_model_prefix(model_prefix)
    note_without_effect("--perf-profile", perf_profile)
    note_without_effect("--io-tensor-mem-handle-type", io_tensor_mem_handle_type)
    # imported here: the help needs no numpy
    from dovetail_tools._net_run.run import execute
    from dovetail_tools._net_run.sigterm import unwound_by_sigterm
    from dovetail_tools._net_run.summary import report

    with unwound_by_sigterm():
        outcome = execute(request)
    report(outcome)
