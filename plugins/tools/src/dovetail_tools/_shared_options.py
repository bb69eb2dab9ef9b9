"""Options that `net-run` and `context-binary-generator` share."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail_tools._option_faults import OptionFaults, Rule

_LOG = logging.getLogger("dovetail.tools")
_DETAILED = "detailed"
TRACE = "chrometrace.json"


class Trace(enum.StrEnum):
    """Values of `--profiling-option`."""

    OPTRACE = "optrace"


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
ProfilingOption = Annotated[
    Trace | None,
    typer.Option(
        help=f"With optrace, also write the profile as {TRACE}, for Perfetto and "
        f"chrome://tracing; requires --profiling-level {_DETAILED}."
    ),
]
TRACED = Rule("profiling_option", "profiling_level", f"pass --profiling-level {_DETAILED}")
ModelPrefix = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Prefix of the functions of a compiled model. A model here is data, so it selects "
        "nothing.",
    ),
]


def check_traced(params: Mapping[str, Any], faults: OptionFaults) -> None:
    """Record a fault if a trace is requested of a profile without its events."""
    level, trace = params["profiling_level"], params["profiling_option"]
    if trace is not None and level not in (None, _DETAILED):
        faults.add(f"--profiling-option {trace} requires --profiling-level {_DETAILED}")


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
