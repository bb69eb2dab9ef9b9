"""`dovetail op-package-generator`: a dist for ops defined in XML or on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def op_package_generator(
    config_path: Annotated[
        list[Path] | None,
        typer.Option(
            "-p",
            "--config-path",
            metavar="XML",
            help="QNN's definitions of an op package; may be repeated, with one dist for each.",
        ),
    ] = None,
    output_path: Annotated[
        Path,
        typer.Option(
            "-o", "--output-path", metavar="DIR", help="Where the folder of each dist is created."
        ),
    ] = Path(),
    force_generation: Annotated[
        bool,
        typer.Option(
            "-f",
            "--force-generation",
            help="Replace folders that this command wrote before. Folders with changes are renamed "
            "instead. Other folders are never changed.",
        ),
    ] = False,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A backend to write kernels for; may be repeated; cpu by default.",
        ),
    ] = None,
    package_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Without XML: name of the op package.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Without XML: domain of its ONNX operators; the package's name by default.",
        ),
    ] = None,
    package_version: Annotated[
        str | None, typer.Option(metavar="X.Y.Z", help="Without XML: version of the package.")
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME(in x, out y, param alpha: float32 = 1.0)'",
            help="Without XML: an op; may be repeated. A part is in, out or param, a name, ? "
            "if optional, * for any number; then : TYPE, or {A, B} for an enumeration; a shape "
            "such as [n, 2 * c], [2D] or []; = DEFAULT.",
        ),
    ] = None,
    write_xml: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Without XML: also write the definitions to this file."),
    ] = None,
) -> None:
    """Write an op package: an installable dist that lacks only the computation of its ops.

    The ops come from QNN's definitions in XML, or from --package-name and --op; without either, the
    command asks for them. The dist has schemas, shape rules, tests that state what is left to do,
    and modules for kernels and importers. Facts of the definitions that no schema expresses are
    listed.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._generator._command import Request, run

    run(
        Request(
            configs=tuple(config_path or ()),
            output=output_path,
            force=force_generation,
            backends=tuple(backend or ("cpu",)),
            package=package_name,
            domain=domain,
            version=package_version,
            ops=tuple(op or ()),
            write_xml=write_xml,
        )
    )
