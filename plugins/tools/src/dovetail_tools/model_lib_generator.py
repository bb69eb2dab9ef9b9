"""`dovetail model-lib-generator`: a wheel that carries a model, and libraries of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.input_format_option import InputFormat
from dovetail.cli.op_package_option import OpPackages, split_list

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def model_lib_generator(
    model: Annotated[
        Path,
        typer.Option(
            "-c",
            "--model",
            "--cpp",
            metavar="FILE",
            help="The model: the .cpp of a converter, a .dvt, or another file that can be "
            "converted.",
        ),
    ],
    weights: Annotated[
        Path | None,
        typer.Option(
            "-b",
            "--weights",
            "--bin",
            metavar="FILE",
            help="The .bin with the weights of a .cpp; by default the one next to it.",
        ),
    ] = None,
    lib_targets: Annotated[
        str,
        typer.Option(
            "-t",
            "--lib-targets",
            metavar='"TARGET ..."',
            help="Names of targets; a folder with a library is written for each.",
        ),
    ] = "aarch64-android x86_64-linux-clang",
    lib_name: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--lib-name",
            metavar="NAME",
            help="Name of the model; by default that of the file of weights, if it is given, else "
            "qnn_model.",
        ),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", metavar="DIR", help="Folder of what is written.")
    ] = Path("lib"),
    package_version: Annotated[
        str, typer.Option(metavar="X.Y.Z", help="Version of the wheel.")
    ] = "1.0",
    op_packages: OpPackages = None,
    op_package_config: Annotated[
        list[Path] | None,
        typer.Option(
            "-opc",
            "--op-package-config",
            metavar="XML [XML ...]",
            help="QNN's definitions of ops without code, used like --op-packages.",
        ),
    ] = None,
    input_format: InputFormat = None,
) -> None:
    """Write a wheel that carries a model, and files with the names of compiled libraries.

    Once DIR/dovetail_model_NAME-VERSION-py3-none-any.whl is installed, `dovetail.load("NAME")` and
    `dovetail net-run --model NAME` find the model. DIR/TARGET/libNAME.so is the same model for
    scripts that pass a library; it is data, and the same for all targets. Nothing is compiled.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._conversion import ops_with
    from dovetail_tools._model_lib import LibraryRequest, generate

    generate(
        LibraryRequest(
            model,
            weights,
            tuple(lib_targets.split()),
            lib_name or (weights.stem if weights is not None else "qnn_model"),
            output_dir,
            package_version,
            input_format,
        ),
        ops_with(split_list(op_packages, "--op-packages"), op_package_config or ()),
    )
