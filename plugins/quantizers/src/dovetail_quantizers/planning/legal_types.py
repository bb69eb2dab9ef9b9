"""Types that a target backend takes, found by asking for its verdicts.

The graph is quantized on a trial basis, with ranges that do not matter for types. Each node that
the backend rejects for a type is asked about again with the nearest allowed one, until it is
accepted. The types found are decisions for the plan; since they may affect neighbors, the next
trial shows whether more nodes are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import DType, Graph, Node, ScaleOffset, Tensor, copy_graph
from dovetail.runtime import Backend
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.roles import present

_ROUNDS = 8  # trials at most; each one follows types to the next nodes
_FIELD = re.compile(r"(?P<side>in|out)\[(?P<index>\d+)\]\.dtype")
_DTYPE = "dtype"
_SHOWN = 8

# An input or an output of a node, and its index.
Port = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """Another type of a tensor: its name in the user's model, its type before and after."""

    source: str
    old: DType
    new: DType


def take_types(
    target: Backend,
    graph: Graph,
    overrides: Overrides,
    quantized: Callable[[Graph, Overrides], None],
) -> dict[tuple[str, Port], Change]:
    """Add the types that a target needs to the overrides of a graph.

    Args:
        target: Handle of the backend.
        graph: The float graph; not changed.
        overrides: Types are added. Given encodings stay.
        quantized: Quantizes a copy of the graph by the overrides of the copy.

    Returns:
        The changes by name of the node and port.
    """
    found: dict[tuple[str, Port], Change] = {}
    for _ in range(_ROUNDS):
        trial = copy_graph(graph)
        quantized(trial, overrides.in_copy(trial))
        before = dict(overrides.types), dict(overrides.input_types)
        for node in graph.nodes:
            _take(node, trial.node(node.name), target, overrides, found)
        _join_inputs(graph, overrides)
        if before == (overrides.types, overrides.input_types):
            break
    return found


def notes_on(
    target: Backend, name: str, graph: Graph, changes: Mapping[tuple[str, Port], Change]
) -> Iterator[str]:
    """Yield what was changed for a target, and the nodes that it still rejects.

    Args:
        target: Handle of the backend.
        name: Its name in the options.
        graph: The quantized graph.
        changes: As `take_types` returns them.
    """
    sources: dict[tuple[DType, DType], dict[str, None]] = {}
    for (node, port), change in changes.items():
        tensor = _tensor_at(graph.node(node), port)
        if tensor is not None and tensor.dtype is change.new:
            sources.setdefault((change.old, change.new), {})[f"'{change.source}'"] = None
    for (old, new), names in sources.items():
        yield f"{name} takes {new.name} instead of {old.name}: {_listed(list(names))}"
    rejected = [
        f"{node.where}: {verdict}"
        for node in graph.nodes
        if not (verdict := target.validate_op(node)).ok
    ]
    if rejected:
        count = f"{len(rejected)} of {len(graph.nodes)} nodes"
        yield f"{name} does not support {count}: {_listed(rejected)}"


def _take(
    node: Node,
    shown: Node,
    target: Backend,
    overrides: Overrides,
    changes: dict[tuple[str, Port], Change],
) -> None:
    """Add the types that a node needs, by its form in a trial."""
    for port, dtype in _accepted_types(shown, target).items():
        (side, index), tensor, found = port, _tensor_at(node, port), _tensor_at(shown, port)
        if tensor is None or found is None:
            continue
        if tensor in overrides.encodings and (side == "out" or tensor.kind.is_static):
            continue  # others can be converted
        if side == "in":
            overrides.input_types[node, index] = dtype
        else:
            overrides.types[tensor] = dtype
        old = changes[node.name, port].old if (node.name, port) in changes else found.dtype
        changes[node.name, port] = Change(tensor.source, old, dtype)


def _accepted_types(node: Node, target: Backend) -> dict[Port, DType]:
    """Return the types of a node's tensors with which a backend no longer rejects types.

    Empty if it does not reject any, or if there are no such types.
    """
    found: dict[Port, DType] = {}
    ports = len(node.inputs) + len(node.outputs)
    for _ in range(2 * ports):  # a later type may change an earlier one
        try:
            verdict = target.validate_op(_with_types(node, found))
        except OpError:
            return {}
        field_of = _FIELD.fullmatch(verdict.field)
        if verdict.ok or verdict.rule != _DTYPE or field_of is None:
            return found
        port = field_of["side"], int(field_of["index"])
        tensor = _tensor_at(node, port)
        if tensor is None or (nearest := _nearest(tensor.dtype, verdict.allowed)) is None:
            return {}
        found[port] = nearest
    return {}


def _tensor_at(node: Node, port: Port) -> Tensor | None:
    side, index = port
    tensors = node.inputs if side == "in" else node.outputs
    return tensors[index] if index < len(tensors) else None


def _nearest(dtype: DType, allowed: tuple[str, ...]) -> DType | None:
    """Return the nearest fixed-point type, of two the wider one; None if there is none."""
    if not dtype.is_fixed_point:
        return None
    known = [DType[name] for name in allowed if name in DType.__members__]

    def distance(other: DType) -> tuple[int, bool, bool]:
        is_narrower, has_sign = other.bits < dtype.bits, other.is_signed != dtype.is_signed
        return abs(other.bits - dtype.bits), is_narrower, has_sign

    return min((t for t in known if t.is_fixed_point), key=distance, default=None)


def _with_types(node: Node, types: Mapping[Port, DType]) -> Node:
    """Return a node with other types of some tensors; their values are zeros."""
    inputs = [
        _like(t, types[port]) if t is not None and (port := ("in", i)) in types else t
        for i, t in enumerate(node.inputs)
    ]
    outputs = [
        _like(t, types[port]) if (port := ("out", i)) in types else t
        for i, t in enumerate(node.outputs)
    ]
    return Node(node.name, node.package, node.op_type, inputs, outputs, node.params)


def _like(tensor: Tensor, dtype: DType) -> Tensor:
    encoding = ScaleOffset(1.0)
    if tensor.data is not None:
        zeros = np.zeros(tensor.shape, dtype.storage)
        return Tensor.static(tensor.name, zeros, dtype, encoding=encoding)
    return Tensor(tensor.name, dtype, tensor.shape, tensor.kind, encoding=encoding)


def _join_inputs(graph: Graph, overrides: Overrides) -> None:
    """Set the type of inputs that all their readers need, so that none needs a Convert."""
    for tensor in graph.inputs:
        ports = [
            (node, i)
            for node in graph.consumers(tensor)
            for i, read in present(node)
            if read is tensor
        ]
        types = {overrides.input_types.get(port) for port in ports}
        dtype = types.pop() if len(types) == 1 else None
        if dtype is not None and tensor not in overrides.encodings:
            overrides.types.setdefault(tensor, dtype)


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
