"""Errors: one root, one branch per cause, one catalogue of codes."""

from typing import TYPE_CHECKING

from dovetail.errors._catalogue import CATALOGUE, Catalogue
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
from dovetail.lazy import lazy_names

if TYPE_CHECKING:
    from dovetail.errors._entry import Entry
else:
    __getattr__ = lazy_names(__name__, {"dovetail.errors._entry": ["Entry"]})

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
    "nearest",
    "suggest_name",
]
