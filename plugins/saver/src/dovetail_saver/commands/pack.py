"""`dovetail trace pack`: a trace as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail_saver.commands.options import TracePath


def pack(
    path: TracePath,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.dvtrace", help="The packed trace.")],
) -> None:
    """Write a trace as one file, for a mail. Every command reads it like a folder.

    It is a ZIP file, which any unpacker turns into the folder again.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.packing import pack as write_packed

    size = write_packed(path, out)
    current_output().data({"trace": str(out), "bytes": size}, f"{out}: {size:,} bytes")
