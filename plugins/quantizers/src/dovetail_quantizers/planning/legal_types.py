"""Types that a target backend takes, found by asking for its verdicts.

The graph is quantized on a trial basis, with ranges that do not matter for types. Each node that
the backend rejects for a type is asked about again with the nearest allowed one, until it is
accepted. The types found are decisions for the plan; since they may affect neighbors, the next
trial shows whether more nodes are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.errors import listed
from dovetail.ir import DType, Graph, Node, Tensor, copy_graph
from dovetail.runtime import Backend
from dovetail_opset import is_op
from dovetail_quantizers.planning.accepted_types import (
    TYPE_RULES,
    Port,
    accepted_types,
    converts,
    ports,
    tensor_at,
    unsigned_of,
)
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.roles import present
from dovetail_quantizers.planning.spanning import is_same

_ROUNDS = 64  # trials at most; each one follows types to the next nodes
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Change:
    """Another type of a tensor: its name in the user's model, its type before and after."""

    source: str
    old: DType
    new: DType


# By name of the node and port.
Changes = dict[tuple[str, Port], Change]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The types that a search found.

    Attributes:
        overrides: The given ones with the types.
        changes: What the types change.
        rejected: Number of nodes that the target still rejects for a type.
        first: The graph of the first trial, with the types of the given overrides alone.
    """

    overrides: Overrides
    changes: Changes
    rejected: int
    first: Graph


def take_types(
    target: Backend,
    graph: Graph,
    overrides: Overrides,
    quantized: Callable[[Graph, Overrides], None],
) -> Changes:
    """Add the types that a target needs to the overrides of a graph.

    Args:
        target: Handle of the backend.
        graph: The float graph; not changed.
        overrides: Types are added. Given encodings stay, but their integers may be counted from
            another one.
        quantized: Quantizes a copy of the graph by the overrides of the copy.

    Returns:
        The changes.
    """
    found = _search(target, graph, overrides, quantized)
    if found.rejected:
        before = types_in(graph, found.first)
        if unsigned := _unsigned_results(before, overrides):
            given = overrides.under(Overrides(types=unsigned))
            other = _search(target, graph, given, quantized)
            if other.rejected < found.rejected:
                changes = _changed(graph, before, unsigned) | other.changes
                found = replace(other, changes=changes)
    chosen = found.overrides
    overrides.types, overrides.input_types = chosen.types, chosen.input_types
    overrides.encodings, overrides.prescribed = chosen.encodings, chosen.prescribed
    return found.changes


def _search(
    target: Backend,
    graph: Graph,
    given: Overrides,
    quantized: Callable[[Graph, Overrides], None],
) -> _Outcome:
    """Return what trials find for given overrides."""
    overrides = given.under(Overrides())
    changes: Changes = {}
    first: Graph | None = None
    for _ in range(_ROUNDS):
        trial = copy_graph(graph)
        quantized(trial, overrides.in_copy(trial))
        first = first or trial
        before = overrides.under(Overrides())
        for node in graph.nodes:
            _take(node, trial.node(node.name), target, overrides, changes)
        _join_inputs(graph, overrides)
        if before == overrides:
            break
    verdicts = [target.validate_op(node) for node in trial.nodes]
    rejected = sum(v.rule in TYPE_RULES for v in verdicts if not v.ok)
    return _Outcome(overrides, changes, rejected, first or trial)


def types_in(graph: Graph, trial: Graph) -> dict[Tensor, DType]:
    """Return the fixed-point types that tensors of a graph have in a trial, but those of constants.

    An input or output that stays float has that of its values inside.
    """
    found = {t: trial.tensor(t.name).dtype for t in graph.tensors.values() if not t.kind.is_static}
    for tensor in graph.inputs:
        readers = trial.consumers(trial.tensor(tensor.name))
        inner = [node.outputs[0].dtype for node in readers if is_op(node, "Quantize")]
        if inner and found[tensor].is_float:
            found[tensor] = inner[0]
    for node in graph.nodes:
        found |= {
            t: made.dtype
            for t, made in zip(node.outputs, trial.node(node.name).outputs, strict=True)
        }
    return {tensor: dtype for tensor, dtype in found.items() if dtype.is_fixed_point}


def _unsigned_results(types: Mapping[Tensor, DType], given: Overrides) -> dict[Tensor, DType]:
    """Return unsigned types for the signed tensors of a trial that nothing is given for."""
    return {
        tensor: DType.fixed(dtype.bits, signed=False)
        for tensor, dtype in types.items()
        if dtype.is_signed and tensor not in given.encodings and tensor not in given.types
    }


def _changed(
    graph: Graph, before: Mapping[Tensor, DType], types: Mapping[Tensor, DType]
) -> Changes:
    """Return the changes of tensors, each where it is written, or read as an input."""
    found: Changes = {}
    for node in graph.nodes:
        for port, tensor in ports(node):
            if tensor in types and (port[0] == "out" or tensor.kind.is_input):
                found[node.name, port] = Change(tensor.source, before[tensor], types[tensor])
    return found


def notes_on(target: Backend, name: str, graph: Graph, changes: Changes) -> Iterator[str]:
    """Yield what was changed for a target, and the nodes that it still rejects.

    Args:
        target: Handle of the backend.
        name: Its name in the options.
        graph: The quantized graph.
        changes: As `take_types` returns them.
    """
    sources: dict[tuple[DType, DType], dict[str, None]] = {}
    for (node, port), change in changes.items():
        tensor = tensor_at(graph.node(node), port)
        if tensor is not None and tensor.dtype is change.new is not change.old:
            sources.setdefault((change.old, change.new), {})[f"'{change.source}'"] = None
    for (old, new), names in sources.items():
        yield f"{name} takes {new.name} instead of {old.name}: {listed(list(names), _SHOWN)}"
    rejected = [
        f"{node.where}: {verdict}"
        for node in graph.nodes
        if not (verdict := target.validate_op(node)).ok
    ]
    if rejected:
        count = f"{len(rejected)} of {len(graph.nodes)} nodes"
        yield f"{name} does not support {count}: {listed(rejected, _SHOWN)}"


def _take(
    node: Node,
    shown: Node,
    target: Backend,
    overrides: Overrides,
    changes: Changes,
) -> None:
    """Add the types that a node needs, by its form in a trial."""
    given = _given_encodings(node, target, overrides)
    if target.validate_op(shown).field == "out[0].encoding":
        overrides.prescribed.add(node.outputs[0])
    accepted = accepted_types(shown, target, given)
    if accepted:  # the node's other results stay as they are, whatever they are joined with
        for result, made in zip(node.outputs, shown.outputs, strict=True):
            if made.dtype.is_fixed_point and result not in overrides.encodings:
                overrides.types.setdefault(result, made.dtype)
    for port, dtype in accepted.items():
        (side, index), tensor, found = port, tensor_at(node, port), tensor_at(shown, port)
        if tensor is None or found is None:
            continue
        if port in given and not tensor.kind.is_static:
            _count_as(overrides, tensor, given[port], dtype)
        elif side == "out":
            overrides.types[tensor] = dtype
        if side == "in":
            overrides.input_types[node, index] = dtype
        old = changes[node.name, port].old if (node.name, port) in changes else found.dtype
        changes[node.name, port] = Change(tensor.source, old, dtype)


def _count_as(overrides: Overrides, tensor: Tensor, given: EncodingDecision, dtype: DType) -> None:
    """Set the type of a tensor, with the same points, and of those that share its encoding.

    If no integers of that type are the same points, they become unsigned, for a Convert.
    """
    counted = given.counted_as(dtype) or given.counted_as(unsigned_of(given))
    assert counted is not None  # `accepted_types` proposes no other types
    # inputs that were converted for its type are asked about again
    old = [port for port, each in overrides.input_types.items() if each is given.dtype]
    for port in old:
        del overrides.input_types[port]
    for other, encoded in overrides.encodings.items():
        if other is tensor or not other.kind.is_static:
            overrides.encodings[other] = counted if is_same(encoded, given) else encoded


def _given_encodings(
    node: Node, target: Backend, overrides: Overrides
) -> dict[Port, EncodingDecision]:
    """Return the given encodings of a node's tensors that no Convert can replace.

    Those are encodings of results and constants, and of inputs in a type that the target does not
    convert.
    """
    found: dict[Port, EncodingDecision] = {}
    for port, tensor in ports(node):
        given = overrides.encodings.get(tensor)
        if given is None:
            continue
        is_fixed = port[0] == "out" or tensor.kind.is_static
        if is_fixed or not converts(tensor, given.dtype, unsigned_of(given), target):
            found[port] = given
    return found


def _join_inputs(graph: Graph, overrides: Overrides) -> None:
    """Set the type of inputs that all their readers need, so that none needs a Convert."""
    for tensor in graph.inputs:
        types = {
            overrides.input_types.get((node, i))
            for node in graph.consumers(tensor)
            for i, read in present(node)
            if read is tensor
        }
        dtype = types.pop() if len(types) == 1 else None
        if dtype is not None and tensor not in overrides.encodings:
            overrides.types.setdefault(tensor, dtype)
