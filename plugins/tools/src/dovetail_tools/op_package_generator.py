"""`dovetail op-package-generator`: a dist for ops that are defined, or spelled on the spot."""

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
            help="QNN's definitions of an op package; may be repeated, each becomes a dist.",
        ),
    ] = None,
    output_path: Annotated[
        Path,
        typer.Option(
            "-o", "--output-path", metavar="DIR", help="Where the folder of each dist goes."
        ),
    ] = Path(),
    force_generation: Annotated[
        bool,
        typer.Option(
            "-f",
            "--force-generation",
            help="Replace folders that this command wrote before. One that somebody has worked on "
            "is moved aside. Others are never touched.",
        ),
    ] = False,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A backend to write kernels for; may be repeated; cpu if left out.",
        ),
    ] = None,
    package_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Without XML: name of the op package.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Without XML: domain of its ONNX operators; the package's name if left out.",
        ),
    ] = None,
    package_version: Annotated[
        str | None, typer.Option(metavar="X.Y.Z", help="Without XML: version of the package.")
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME(in x, out y, param alpha: float32 = 1.0)'",
            help="Without XML: an op; may be repeated. A part is in, out or param, a name, ? if it "
            "may be left out, * for any number; then : TYPE, or {A, B} for an enumeration; a shape "
            "as [n, 2 * c], [2D] or []; = DEFAULT.",
        ),
    ] = None,
    write_xml: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Without XML: write the definitions there, too."),
    ] = None,
) -> None:
    """Write an op package: a dist that can be installed, and lacks only what its ops compute.

    Ops come from QNN's definitions in XML, or from --package-name and --op; with neither they are
    asked for. The dist has schemas, shapes, tests that say what is left to do, and room for kernels
    and importers. What the definitions say and no schema holds is listed.
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
