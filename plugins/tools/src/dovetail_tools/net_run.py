"""`dovetail net-run`: a model over lists of raw inputs, on a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail_tools._request import (
    Profiling,
    Request,
    check_perf_profile,
    check_request,
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
            help="Lists of raw inputs, one a graph, in order; __ skips a graph.",
        ),
    ],
    backend: Annotated[
        str,
        typer.Option(metavar="NAME", help="A backend, or the SDK's library of it: libQnnCpu.so."),
    ] = "cpu",
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results go, in place of an earlier run's.")
    ] = Path("output"),
    use_native_input_files: Annotated[
        bool,
        typer.Option(
            "--use-native-input-files",
            help="Raw inputs hold values of the graph's types instead of float32.",
        ),
    ] = False,
    native_input_tensor_names: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME]", help="The same for these inputs only."),
    ] = None,
    use_native_output_files: Annotated[
        bool,
        typer.Option(
            "--use-native-output-files",
            help="Write outputs in the graph's types: NAME_native.raw where that is not float32.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Write what every node computes, too.")
    ] = False,
    set_output_tensors: Annotated[
        str | None,
        typer.Option(
            metavar="GRAPH:NAME[,NAME][;...]", help="Tensors to be written besides the outputs."
        ),
    ] = None,
    profiling_level: Annotated[
        Profiling | None,
        typer.Option(
            help="Write profiling_data.json: init and execution times (basic), those of each node "
            "(detailed), or only what this tool measures itself (client).",
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Our .toml, or the SDK's backend-extension .json."),
    ] = None,
    synchronous: Annotated[
        bool,
        typer.Option(
            "--synchronous",
            help="Read, execute, write, one after the other; otherwise they overlap where it "
            "pays: the backend executes asynchronously, and for 2 ms or more.",
        ),
    ] = False,
    num_inferences: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Inferences of each graph, looping over its list."),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Loop over each list until this time has passed."),
    ] = None,
    keep_num_outputs: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Keep the first N results of each graph; loops after the first one keep none.",
        ),
    ] = None,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="MICROSECONDS", help="That one inference may take, more than 0."
        ),
    ] = None,
    op_packages: OpPackages = None,
    perf_profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One of the SDK's; there is no clock to set here."),
    ] = None,
) -> None:
    """Run a model on a backend over a list of inputs.

    A line of the list is one set of inputs: `name:=path` pairs separated by spaces, or the bare
    path of the only input. Paths are relative to the working directory, then to the list. Files
    are little-endian, C order, float32. Where the first dimension of all inputs is above 1 and the
    files hold one element each, lines are combined; the last batch is filled up with zeros. First
    lines `#node ...` or `%tensor ...` choose what is written.

    Line i gives DIR/Result_i/TENSOR.raw; with several graphs, DIR/GRAPH/Result_i/TENSOR.raw. They
    appear when everything has been run, and replace all results that are there.
    """
    request = Request(
        models=tuple(Path(name) for name in split_list(model, "--model")),
        backend=backend,
        input_lists=parse_input_lists(input_list),
        output_dir=output_dir,
        native_inputs=use_native_input_files,
        native_names=split_list(native_input_tensor_names, "--native-input-tensor-names"),
        native_outputs=use_native_output_files,
        debug=debug,
        set_outputs=parse_set_outputs(set_output_tensors),
        profiling=profiling_level,
        config_file=config_file,
        synchronous=synchronous,
        num_inferences=num_inferences,
        duration_s=duration,
        keep_outputs=keep_num_outputs,
        timeout_us=timeout,
        op_packages=split_list(op_packages, "--op-packages"),
    )
    check_request(request)
    if perf_profile is not None:
        check_perf_profile(perf_profile)
    # imported here: the help needs no numpy
    from dovetail_tools._dead_runs import unwound_by_sigterm
    from dovetail_tools._run import execute
    from dovetail_tools._summary import report

    with unwound_by_sigterm():
        outcome = execute(request, perf_profile)
    report(outcome)
