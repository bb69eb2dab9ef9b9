"""Errors: one root, one branch per cause, one catalogue of codes."""

from dovetail.errors._catalogue import CATALOGUE, Catalogue
from dovetail.errors._entry import Entry
from dovetail.errors._listing import counted, listed
from dovetail.errors._suggest import nearest, suggest_name
from dovetail.errors._tree import (
    BackendError,
    ConfigError,
    ContainerError,
    DovetailError,
    ExitCode,
    FrontendError,
    GraphError,
    OpError,
    PluginError,
    Problem,
    QuantizationError,
    TraceError,
    UnsupportedOpError,
)

__all__ = [
    "CATALOGUE",
    "BackendError",
    "Catalogue",
    "ConfigError",
    "ContainerError",
    "DovetailError",
    "Entry",
    "ExitCode",
    "FrontendError",
    "GraphError",
    "OpError",
    "PluginError",
    "Problem",
    "QuantizationError",
    "TraceError",
    "UnsupportedOpError",
    "counted",
    "listed",
    "nearest",
    "suggest_name",
]
