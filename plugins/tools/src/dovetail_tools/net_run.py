"""`dovetail net-run`: runs of models on a backend, over lists of raw inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.input_format_option import InputFormat
from dovetail.cli.map_weights_option import NoMapWeights
from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail_tools._request import (
    OutputData,
    Profiling,
    Request,
    check_perf_profile,
    check_request,
    output_data,
    parse_input_lists,
    parse_set_outputs,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def net_run(
    model: Annotated[
        str,
        typer.Option(
            metavar="FILE[,FILE]", help="Models: .dvt files, or files that can be converted."
        ),
    ],
    input_list: Annotated[
        str,
        typer.Option(
            metavar="FILE[,FILE]",
            help="Input lists, one per graph, in order; __ skips a graph.",
        ),
    ],
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A backend, or its library in the SDK, for example libQnnCpu.so. With hetero:a,b, "
            "the first of these backends that supports a node runs it; with auto or auto:a,b, the "
            "fastest one, which a short trial finds, runs all.",
        ),
    ] = "cpu",
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
            "of each node (detailed), or only the times measured by this command (client).",
        ),
    ] = None,
    chrome_trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the profile for Perfetto and chrome://tracing."
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .toml file, or the SDK's backend-extension .json."),
    ] = None,
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
            min=1, metavar="N", help="Number of inferences of each graph, in a loop over its list."
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
    op_packages: OpPackages = None,
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
    request = Request(
        models=tuple(Path(name) for name in split_list(model, "--model")),
        backend=backend,
        input_lists=parse_input_lists(input_list),
        output_dir=output_dir,
        native_inputs=use_native_input_files,
        native_names=native_input_tensor_names,
        output_data=output_data(output_data_type, native=use_native_output_files),
        debug=debug,
        set_outputs=parse_set_outputs(set_output_tensors),
        profiling=profiling_level,
        chrome_trace=chrome_trace,
        config_file=config_file,
        synchronous=synchronous,
        num_inferences=num_inferences,
        duration_s=duration,
        keep_outputs=keep_num_outputs,
        timeout_us=timeout,
        op_packages=split_list(op_packages, "--op-packages"),
        map_weights=not no_map_weights,
        input_format=input_format,
    )
    check_request(request)
    if perf_profile is not None:
        check_perf_profile(perf_profile)
    # imported here: the help needs no numpy
    from dovetail_tools._run import execute
    from dovetail_tools._sigterm import unwound_by_sigterm
    from dovetail_tools._summary import report

    with unwound_by_sigterm():
        outcome = execute(request, perf_profile)
    report(outcome)
