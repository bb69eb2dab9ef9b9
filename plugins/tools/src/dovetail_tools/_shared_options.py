"""Options that `net-run` and `context-binary-generator` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BackendName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="A backend, or its library in the SDK, for example libQnnCpu.so. With hetero:a,b, "
        "the first of these backends that supports a node runs it; with auto or auto:a,b, the "
        "fastest one, which a short trial finds, runs all.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A .toml file, or the SDK's backend-extension .json."),
]
PlatformOptions = Annotated[
    str | None,
    typer.Option(
        metavar="KEY:VALUE[;KEY:VALUE]",
        help="Options of the backend; they replace those of the config file.",
    ),
]
ModelPrefix = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Prefix of the functions of a compiled model. A model here is data, so it selects "
        "nothing.",
    ),
]


def note_model_prefix(prefix: str | None) -> None:
    """Log a warning that `--model-prefix` selects nothing, if it is given."""
    if prefix is not None:
        import logging  # imported here: the help of a command logs nothing

        logging.getLogger("dovetail.tools").warning(
            "--model-prefix %s selects nothing: the models here are data without functions", prefix
        )
