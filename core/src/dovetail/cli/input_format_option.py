"""The option `--input-format` of commands that read models."""

from __future__ import annotations

from typing import Annotated

import typer

InputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The frontend that reads the models; by default it is found."
    ),
]
