"""The user's options for graphs whose shapes are fixed, but for the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.errors import ConfigError, Problem
from dovetail.ir import Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry, find_op_faults
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins.ops import installed_ops
from dovetail_opset.importing.batch import Batch, change_batch
from dovetail_opset.importing.options import batch_problems, unknown_name
from dovetail_opset.passes import DeadCode

_FIXED = (
    "only the first axis, the batch, can have another size; change the model that the file was "
    "made from"
)


def apply_options(
    graphs: Sequence[Graph], options: FrontendOptions, ops: OpRegistry | None = None
) -> None:
    """Check that options match graphs, change their batch, and cut them at the chosen outputs.

    A name may belong to some of the graphs only.

    Args:
        graphs: The graphs; changed.
        options: The options.
        ops: Finds ops; by default the installed ones.

    Raises:
        ConfigError: Some do not match, or nodes cannot have the batch (USAGE); all are listed.
    """
    if problems := list(_problems(graphs, options)):
        raise ConfigError("the options do not match the model", code="USAGE", problems=problems)
    if faults := [p for graph in graphs for p in _with_batch(graph, options, ops)]:
        raise ConfigError(
            "the model cannot have another batch",
            code="USAGE",
            problems=faults,
            hint="convert the model that the file was made from with this batch",
        )
    for graph in graphs:
        if names := [name for name in options.out_names if name in graph.tensors]:
            _cut(graph, names)


def _problems(graphs: Sequence[Graph], options: FrontendOptions) -> Iterator[Problem]:
    inputs = [tensor for graph in graphs for tensor in graph.inputs]
    for name, shape in options.input_dims.items():
        where = f"--input-dim {name}"
        found = [tensor for tensor in inputs if tensor.name == name]
        if not found:
            yield unknown_name("input", where, name, [tensor.name for tensor in inputs])
        for tensor in found:
            if len(shape) != len(tensor.shape) or tuple(shape)[1:] != tensor.shape[1:]:
                yield Problem(f"the model has the shape {tensor.shape}", where, _FIXED)
    yield from batch_problems(options)
    for name in options.out_names:
        where = f"--out-name {name}"
        holders = [graph for graph in graphs if name in graph.tensors]
        if not holders:
            known = [n for graph in graphs for n in graph.tensors]
            yield unknown_name("tensor", where, name, known)
        elif any(graph.producer(graph.tensors[name]) is None for graph in holders):
            yield Problem(f"no node writes tensor '{name}'", where)


def _with_batch(
    graph: Graph, options: FrontendOptions, ops: OpRegistry | None
) -> Iterator[Problem]:
    """Change the batch of a graph; yield why it cannot have another one."""
    changes: dict[Batch, list[Tensor]] = {}
    for tensor in graph.inputs:
        shape = options.input_dims.get(tensor.name, tensor.shape)
        size = shape[0] if tensor.name in options.input_dims and shape else options.batch
        if size is None or tensor.shape[:1] == (size,):
            continue
        if not tensor.shape or not tensor.shape[0] or size < 1:
            text = f"input '{tensor.name}' of the shape {tensor.shape} cannot have the batch {size}"
            yield Problem(text, f"graph '{graph.name}'")
            return
        changes.setdefault(Batch(tensor.shape[0], size), []).append(tensor)
    if len(changes) > 1:
        said = ", ".join(f"{change.old} to {change.new}" for change in changes)
        text = f"inputs would change their first axes differently: {said}"
        hint = "give those with a batch new shapes by --input-dim instead of --batch"
        yield Problem(text, f"graph '{graph.name}'", hint)
        return
    for change, inputs in changes.items():
        known = installed_ops() if ops is None else ops
        yield from find_op_faults(graph, known) or change_batch(graph, change, inputs, known)


def _cut(graph: Graph, names: Sequence[str]) -> None:
    for tensor in graph.outputs:
        if tensor.kind is TensorKind.APP_READ:
            tensor.kind = TensorKind.NATIVE
    for name in names:
        tensor = graph.tensor(name)
        if tensor.kind is TensorKind.NATIVE:
            tensor.kind = TensorKind.APP_READ
    DeadCode().run(graph)
    graph.reorder_interface([t.name for t in graph.inputs], names)
