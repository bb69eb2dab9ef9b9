"""The declaration of `--output-format`, for commands that write a model."""

from __future__ import annotations

from typing import Annotated

import typer

OutputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The exporter that writes the file; by default it is found by the suffix. `dovetail "
        "plugins` lists the installed ones.",
    ),
]
