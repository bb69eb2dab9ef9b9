"""The graphs of a trace as a model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from dovetail.container import Model, Producer
from dovetail.errors import (
    BackendError,
    ConfigError,
    TraceError,
    UnsupportedOpError,
    suggest_name,
)
from dovetail.files import check_suffix
from dovetail.ir import Graph
from dovetail.ops import CheckedGraph, NodeView, OpPackage, OpRegistry
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import Graph as GraphHandle
from dovetail.runtime import contract
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.calls import CallRecord, InstalledResolver, Player
from dovetail_saver.describing import HandleNames, describe
from dovetail_saver.replay import Retarget
from dovetail_saver.trace import Entry, Trace

_COMPOSING = frozenset(
    {
        *("backend_create", "backend_register_op_package", "device_create", "context_create"),
        *("context_create_tensor", "graph_create", "graph_create_tensor", "graph_add_node"),
    }
)
_UNKNOWN = "unknown"  # version of an op package that is not installed


class _Composer(BackendBase):
    """A backend for graphs that are composed but not finalized, of any ops."""

    name: ClassVar[str] = "trace-export"

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities(op_packages=True, opaque_ops=True, priority=True)

    def validate(self, node: NodeView, device: Any, config: Any) -> contract.Support:
        return contract.SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: contract.PrepareRequest, context: ContextBase
    ) -> PreparedBase:
        raise BackendError("this backend prepares no graphs")


def export_model(
    path: Path, file: Path, names: Sequence[str] = (), packages: Sequence[OpPackage] = ()
) -> Model:
    """Write the graphs of a trace as a model, with the data with which they were composed.

    Args:
        path: The trace.
        file: The model, a `.dvt` file.
        names: Names of graphs; none for all.
        packages: Op packages that are not installed.

    Raises:
        ConfigError: The file has another suffix, or a name is unknown.
        TraceError: The trace is invalid, or has no such graph.
        GraphError: Two graphs have the same name.
        ContainerError: The file cannot be written.
    """
    check_suffix(file, ".dvt", "a model is written", "--out")
    trace = Trace(path)
    resolver = InstalledResolver({_Composer.name: _Composer}, packages)
    with Player(trace.payloads, resolver) as player:
        graphs = _composed(trace, player)
        chosen = _chosen(graphs, names, path)
        registry = installed_ops()
        for package in packages:
            registry.add(package, replace=True)
        used = sorted({node.package for graph in chosen for node in graph.nodes})
        producer = Producer("dovetail-saver", version("dovetail-saver"))
        model = Model({}, producer, {name: _version(registry, name) for name in used})
        for graph in chosen:
            if model.graphs.setdefault(graph.name, graph) is not graph:
                raise TraceError(
                    f"the trace has several graphs named '{graph.name}'",
                    where=str(path),
                    hint="trim the trace to the calls of one of them, or choose others by --graph",
                )
        model.save(file)
    return model


def _composed(trace: Trace, player: Player) -> list[Graph]:
    """Return the graphs of a trace, in order."""
    retarget, names = Retarget(_Composer.name), HandleNames()
    graphs: list[Graph] = []
    for entry in trace:
        record = entry.record
        if not isinstance(record, CallRecord):
            continue
        names.note(record)
        if record.function not in _COMPOSING or record.error is not None:
            continue
        played = player.play(retarget(record, entry.where), entry.where)
        if played.error is not None:
            raise _cannot_compose(entry, names, played.error) from played.error
        if isinstance(played.result, GraphHandle):
            graphs.append(played.result.ir)
    return graphs


def _version(registry: OpRegistry, package: str) -> str:
    """Return the version of an op package, which may not be installed."""
    try:
        return registry.package(package).version
    except UnsupportedOpError:
        return _UNKNOWN


def _cannot_compose(entry: Entry, names: HandleNames, error: Exception) -> TraceError:
    return TraceError(
        f"cannot compose the graph: {error}",
        where=f"{entry.where}: {describe(entry.record, names)}",
    )


def _chosen(graphs: Sequence[Graph], names: Sequence[str], path: Path) -> list[Graph]:
    known = [graph.name for graph in graphs]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"graph '{unknown[0]}' not found",
            code="USAGE",
            where=f"--graph {unknown[0]}",
            hint=suggest_name(unknown[0], known),
        )
    chosen = [graph for graph in graphs if not names or graph.name in names]
    if not chosen:
        raise TraceError("the trace has no graphs", where=str(path))
    return chosen
