"""The entry-point groups: every kind of named thing that a dist can bring."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PREFIX = "dovetail."
COMMANDS = "dovetail.commands"
COMMAND_HELP = "dovetail.command_help"

# Group -> what its entry points load.
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "dovetail.op_packages": "an OpPackage",
        "dovetail.backends": "a Backend class",
        "dovetail.kernels": "the kernels that an op package brings for a backend",
        "dovetail.frontends": "a Frontend class",
        "dovetail.importers": "converters of a foreign op domain into an op package's ops",
        "dovetail.exporters": "an Exporter class",
        "dovetail.passes": "a graph pass",
        "dovetail.range_estimators": "a RangeEstimator class",
        "dovetail.quantizers": "a Quantizer class",
        "dovetail.quantization_algorithms": "a graph-level quantization algorithm",
        "dovetail.verifiers": "a Verifier function",
        "dovetail.hooks": "a module or object with hook implementations",
        "dovetail.commands": "a typer app",
        "dovetail.command_help": "nothing: the value itself is a command's line of help",
    }
)
