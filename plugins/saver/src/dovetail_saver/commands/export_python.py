"""`dovetail trace export python`: a trace as a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail_saver.commands.options import TracePath


def export_python(
    path: TracePath,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the script and its data.")
    ],
) -> None:
    """Write a Python script of the recorded API calls.

    The script is DIR/replay.py, and its data are in DIR/data. It compares errors and outputs with
    the recorded ones. It makes all calls from one thread; callbacks do nothing.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.exporting.script import SCRIPT_NAME, export_script

    calls = export_script(path, out)
    script = out / SCRIPT_NAME
    current_output().data({"script": str(script), "calls": calls}, f"{script}: {calls:,} calls")
