"""The kinds of plugins with a template."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


class PluginKind(enum.StrEnum):
    """The kinds that the command accepts."""

    BACKEND = "backend"
    OP_PACKAGE = "op-package"
    FRONTEND = "frontend"
    VERIFIER = "verifier"
    ESTIMATOR = "estimator"
    HOOK = "hook"
    PASS = "pass"
    EXPORTER = "exporter"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point of a generated dist; its names replace `{name}`, `{module}` and `{Words}`.

    Attributes:
        group: Entry-point group.
        name: Name within the group.
        value: `module:attribute` to load.
    """

    group: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A template.

    Attributes:
        noun: Kind of the plugin, with an article.
        description: Description of the dist.
        entry_points: Entry points, that of the plugin first.
        tested_with: Dists of ours that the generated tests need in addition to core.
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
            (EntryPoint("dovetail.verifiers", "{name}", "{module}:RelativeError"),),
        ),
        PluginKind.ESTIMATOR: Kind(
            "a range estimator",
            "The range estimator {name} for Dovetail",
            (EntryPoint("dovetail.range_estimators", "{name}", "{module}:MovingAverage"),),
        ),
        PluginKind.HOOK: Kind(
            "a hook",
            "The hook {name} for Dovetail",
            (EntryPoint("dovetail.hooks", "{name}", "{module}:HOOK"),),
            ("dovetail-cpu",),
        ),
        PluginKind.PASS: Kind(
            "a graph pass",
            "The graph pass {name} for Dovetail",
            (EntryPoint("dovetail.passes", "{name}", "{module}:PASS"),),
            ("dovetail-opset",),
        ),
        PluginKind.EXPORTER: Kind(
            "an exporter",
            "Writes {name} files for Dovetail",
            (EntryPoint("dovetail.exporters", "{name}", "{module}:{Words}Exporter"),),
        ),
        PluginKind.COMMAND: Kind(
            "a command",
            "The command {name} for Dovetail",
            (
                EntryPoint("dovetail.commands", "{name}", "{module}:app"),
                EntryPoint("dovetail.command_help", "{name}", "Count the ops of a model"),
            ),
        ),
    }
)
