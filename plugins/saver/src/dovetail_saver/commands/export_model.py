"""`dovetail trace export model`: the graphs of a trace as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail_saver.commands.options import TracePath


def export_model(
    path: TracePath,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.dvt", help="The model.")],
    graph: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A graph to write instead of all. May be repeated."),
    ] = None,
    op_packages: OpPackages = None,
) -> None:
    """Write the graphs of a trace as a .dvt file.

    The commands and Session load it. Constants have the values with which the graphs were composed,
    without later updates.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.op_packages import load_op_packages
    from dovetail.cli.output import current_output
    from dovetail_saver.exporting.model import export_model as write_model

    packages = load_op_packages(split_list(op_packages, "--op-packages"))
    model = write_model(path, out, graph or [], packages)
    names = list(model.graphs)
    text = f"{out}: {', '.join(names)}"
    current_output().data({"model": str(out), "graphs": names}, text)
