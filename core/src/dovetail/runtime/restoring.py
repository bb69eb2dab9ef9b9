"""Graphs and tensors of a context binary, restored in a new context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dovetail import ir
from dovetail.container import ContextFile
from dovetail.errors import ContainerError, GraphError
from dovetail.runtime.compatibility import Verdict
from dovetail.runtime.context_binaries import compatibility_of, enabled_graphs
from dovetail.runtime.context_tensors import ContextTensor
from dovetail.runtime.contract import RunControl
from dovetail.runtime.graph import Graph
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.residency import prepare_lazily
from dovetail.runtime.stored_graphs import StoredGraph, prepare_all

if TYPE_CHECKING:  # a context restores itself from a binary
    from dovetail.runtime.context import Context


def restored_content(
    file: ContextFile, context: Context, record: Recorder | None, control: RunControl
) -> tuple[Mapping[str, ContextTensor], Mapping[str, Graph]]:
    """Return the context tensors of a binary and the graphs that are enabled, by name.

    Args:
        file: The binary.
        context: The context to which they belong from now on.
        record: Receives measurements.
        control: Can end the work.

    Raises:
        ContainerError: The binary does not suit the backend, or is damaged.
        BackendError: A graph to enable does not exist, or graphs cannot be restored.
    """
    _require_suitable(file, context)
    stored = [StoredGraph(file, name, context) for name in enabled_graphs(file, context.config)]
    tensors = {tensor.name: tensor for tensor in file.tensors()}
    shared = [graph.shared_names(tensors) for graph in stored]
    handles = {name: _restored_tensor(t, context, file.where) for name, t in tensors.items()}
    limit = context.config.memory_limit_hint
    prepared = (
        prepare_all(stored, context, record, control)
        if limit is None
        else prepare_lazily(stored, limit << 20, control)
    )
    graphs = {}
    for each, names in zip(stored, shared, strict=True):
        used = [handles[name] for name in names]
        graphs[each.name] = Graph.restored(context, each, prepared[each.name], used)
    return handles, graphs


def _require_suitable(file: ContextFile, context: Context) -> None:
    worst = Verdict.OPTIMAL if context.config.is_strict else Verdict.USABLE
    has_model = all(entry.model is not None for entry in file.graphs.values())
    found = compatibility_of(file, context.backend, context.device)
    found.require(worst, file.where, has_model=has_model)


def _restored_tensor(tensor: ir.Tensor, context: Context, where: str) -> ContextTensor:
    try:
        return ContextTensor(context, tensor)
    except GraphError as error:
        raise ContainerError(
            error.message,
            code="CONTAINER_INVALID",
            where=f"{where}: {error.where}",
            problems=error.problems,
        ) from error
