"""The declaration of `--no-map-weights`, of commands that run models."""

from __future__ import annotations

from typing import Annotated

import typer

NoMapWeights = Annotated[
    bool,
    typer.Option(
        "--no-map-weights",
        help="Read files of weights into memory at once. By default they are mapped, and must not "
        "be changed in place while the command runs.",
    ),
]
