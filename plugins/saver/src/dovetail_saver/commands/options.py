"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TracePath = Annotated[
    Path, typer.Argument(metavar="TRACE", help="The folder of a trace, or a packed one (.dvtrace).")
]
Calls = Annotated[
    str | None,
    typer.Option(
        metavar="SET",
        help="Calls: numbers, ranges and API names, such as 0-100,200,graph_execute; 7- is all "
        "from 7 on. By default all.",
    ),
]
NewTrace = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of the new trace, new or empty.")
]
