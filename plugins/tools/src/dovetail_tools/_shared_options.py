"""Options that `net-run` and `context-binary-generator` share."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

_LOG = logging.getLogger("dovetail.tools")

BackendName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A backend, or its library in the SDK, for example libQnnCpu.so. With hetero:a,b, "
        "the first of these backends that supports a node runs it; with auto or auto:a,b, the "
        "fastest one, which a short trial finds, runs all. By default cpu, or that of the context "
        "binary.",
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
ModelFiles = Annotated[
    str | None,
    typer.Option(metavar="FILE[,FILE]", help="Models: .dvt files, or files that can be converted."),
]
DlcPath = Annotated[
    str | None,
    typer.Option(
        metavar="FILE[,FILE]",
        help="DLC files, instead of --model or with --model libQnnModelDlc.so.",
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
        _LOG.warning(
            "--model-prefix %s selects nothing: the models here are data without functions", prefix
        )


def note_without_effect(option: str, value: str | None) -> None:
    """Log a warning that an option has no effect, if it is given."""
    if value is not None:
        _LOG.warning("%s %s has no effect on this machine", option, value)
