"""The kinds of plugin that there is a template for."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


class PluginKind(enum.StrEnum):
    """What the command is asked for."""

    BACKEND = "backend"
    OP_PACKAGE = "op-package"
    FRONTEND = "frontend"
    VERIFIER = "verifier"
    ESTIMATOR = "estimator"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point of a generated dist; `{name}`, `{module}` and `{Words}` stand for its names.

    Attributes:
        group: Entry-point group.
        name: Within the group.
        value: What it loads.
    """

    group: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A template.

    Attributes:
        noun: What the plugin is, with its article.
        description: Of the dist.
        entry_points: The plugin's own first.
        tested_with: Dists of ours that the generated tests need beside core.
    """

    noun: str
    description: str
    entry_points: tuple[EntryPoint, ...]
    tested_with: tuple[str, ...] = ()


KINDS: Mapping[PluginKind, Kind] = MappingProxyType(
    {
        PluginKind.BACKEND: Kind(
            "a backend",
            "The backend {name} for Dovetail",
            (EntryPoint("dovetail.backends", "{name}", "{module}:{Words}Backend"),),
            ("dovetail-opset",),
        ),
        PluginKind.OP_PACKAGE: Kind(
            "an op package",
            "The op package {name} for Dovetail",
            (
                EntryPoint("dovetail.op_packages", "{name}", "{module}.ops:PACKAGE"),
                EntryPoint("dovetail.kernels", "cpu:{name}", "{module}.kernels:KERNELS"),
            ),
            ("dovetail-cpu",),
        ),
        PluginKind.FRONTEND: Kind(
            "a frontend",
            "Reads {name} models for Dovetail",
            (EntryPoint("dovetail.frontends", "{name}", "{module}:{Words}Frontend"),),
            ("dovetail-cpu", "dovetail-opset", "dovetail-tools"),
        ),
        PluginKind.VERIFIER: Kind(
            "a verifier",
            "The verifier {name} for Dovetail",
            (EntryPoint("dovetail.verifiers", "{name}", "{module}:relative_error"),),
        ),
        PluginKind.ESTIMATOR: Kind(
            "a range estimator",
            "The range estimator {name} for Dovetail",
            (EntryPoint("dovetail.range_estimators", "{name}", "{module}:MovingAverage"),),
        ),
    }
)
