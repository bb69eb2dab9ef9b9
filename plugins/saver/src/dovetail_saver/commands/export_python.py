"""`dovetail trace export python`: a trace as a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail.errors import counted
from dovetail_saver.commands.options import TracePath


def export_python(
    path: TracePath,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the script and its data.")
    ],
    op_packages: OpPackages = None,
) -> None:
    """Write a Python script of the recorded API calls.

    The script is DIR/replay.py, and its data are in DIR/data. It compares errors and outputs with
    the recorded ones. It makes all calls from one thread; callbacks do nothing. The modules of
    --op-packages are loaded by the script.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.op_packages import absolute_reference, load_op_packages
    from dovetail.cli.output import current_output
    from dovetail_saver.exporting.script import SCRIPT_NAME, export_script

    references = [absolute_reference(t) for t in split_list(op_packages, "--op-packages")]
    load_op_packages(references)  # an error now, not when the script runs
    calls = export_script(path, out, references)
    script = out / SCRIPT_NAME
    current_output().data(
        {"script": str(script), "calls": calls}, f"{script}: {counted(calls, 'call')}"
    )
