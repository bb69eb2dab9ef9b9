"""Types that a target backend takes, found by asking for its verdicts.

The graph is quantized on a trial basis, with ranges that do not matter for types. Each node that
the backend rejects for a type is asked about again with the nearest allowed one, until it is
accepted. The types found are decisions for the plan; since they may affect neighbors, the next
trial shows whether more nodes are rejected.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import OpError, listed
from dovetail.ir import DType, Graph, Node, ScaleOffset, Tensor, copy_graph
from dovetail.runtime import Backend
from dovetail_opset import PACKAGE, is_op
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.roles import present
from dovetail_quantizers.planning.spanning import is_same

_ROUNDS = 64  # trials at most; each one follows types to the next nodes
_FIELD = re.compile(r"(?P<side>in|out)\[(?P<index>\d+)\]\.dtype")
_TYPE_RULES = ("dtype", "architecture")  # other types may help; of the latter, a newer one too
_SHOWN = 8
_MOST_VERDICTS = 500  # on forms of one node; an Lstm needs some 12

# An input or an output of a node, and its index.
Port = tuple[str, int]


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
    rejected = sum(v.rule in _TYPE_RULES for v in verdicts if not v.ok)
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
        ports = [(("in", i), t) for i, t in present(node) if t.kind.is_input]
        for port, tensor in (*ports, *((("out", i), t) for i, t in enumerate(node.outputs))):
            if tensor in types:
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
        tensor = _tensor_at(graph.node(node), port)
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
    accepted = _accepted_types(shown, target, given)
    if accepted:  # the node's other results stay as they are, whatever they are joined with
        for result, made in zip(node.outputs, shown.outputs, strict=True):
            if made.dtype.is_fixed_point and result not in overrides.encodings:
                overrides.types.setdefault(result, made.dtype)
    for port, dtype in accepted.items():
        (side, index), tensor, found = port, _tensor_at(node, port), _tensor_at(shown, port)
        if tensor is None or found is None:
            continue
        if port in given:
            _count_as(overrides, tensor, given[port], dtype)
        elif side == "out":
            overrides.types[tensor] = dtype
        if side == "in" and not (port in given and tensor.kind.is_static):
            overrides.input_types[node, index] = dtype
        old = changes[node.name, port].old if (node.name, port) in changes else found.dtype
        changes[node.name, port] = Change(tensor.source, old, dtype)


def _count_as(overrides: Overrides, tensor: Tensor, given: EncodingDecision, dtype: DType) -> None:
    """Set the type of a tensor, with the same points, and of those that share its encoding.

    If no integers of that type are the same points, they become unsigned, for a Convert.
    """
    counted = given.counted_as(dtype) or given.counted_as(_unsigned(given))
    assert counted is not None  # `_accepted_types` proposes no other types
    if not tensor.kind.is_static:  # inputs that were converted for its type are asked about again
        old = [port for port, each in overrides.input_types.items() if each is given.dtype]
        for port in old:
            del overrides.input_types[port]
    for other, encoded in overrides.encodings.items():
        if other is tensor or not (other.kind.is_static or tensor.kind.is_static):
            overrides.encodings[other] = counted if is_same(encoded, given) else encoded


def _given_encodings(
    node: Node, target: Backend, overrides: Overrides
) -> dict[Port, EncodingDecision]:
    """Return the given encodings of a node's tensors that no Convert can replace.

    Those are encodings of results and constants, and of inputs in a type that the target does not
    convert.
    """
    found: dict[Port, EncodingDecision] = {}
    for side, tensors in (("in", node.inputs), ("out", node.outputs)):
        for index, tensor in enumerate(tensors):
            given = None if tensor is None else overrides.encodings.get(tensor)
            if tensor is None or given is None:
                continue
            is_fixed = side == "out" or tensor.kind.is_static
            if is_fixed or not _converts(tensor, given.dtype, _unsigned(given), target):
                found[side, index] = given
    return found


def _converts(tensor: Tensor, dtype: DType, other: DType, target: Backend) -> bool:
    """Return whether a backend converts a tensor from a type to another one."""
    source, made = (_like(tensor, each) for each in (dtype, other))
    return target.validate_op(Node("convert", PACKAGE.name, "Convert", [source], [made])).ok


def _accepted_types(
    node: Node, target: Backend, given: Mapping[Port, EncodingDecision]
) -> dict[Port, DType]:
    """Return the types of a node's tensors with which a backend no longer rejects types.

    Of several, those with the smallest loss; see `_loss`. Empty if it does not reject any, or if
    there are no such types.
    """
    waiting: list[tuple[int, int, dict[Port, DType]]] = [(0, 0, {})]
    seen: set[frozenset[tuple[Port, DType]]] = set()

    def consider(found: dict[Port, DType], more: dict[Port, DType]) -> None:
        types = found | more
        key = frozenset(types.items())
        possible = (
            _can_be_given(node, port, dtype, target, given[port])
            if port in given
            else _can_be(node, port, dtype, target)
            for port, dtype in more.items()
        )
        if key not in seen and all(possible):
            seen.add(key)
            loss = sum(_loss(node, *each) for each in key)
            # of equal losses, the types that were found last: they are the most complete
            heapq.heappush(waiting, (loss, -len(seen), types))

    for number in itertools.count():
        if not waiting or number > _MOST_VERDICTS:
            return {}
        _, _, found = heapq.heappop(waiting)
        try:
            verdict = target.validate_op(_with_types(node, found))
        except OpError:
            continue
        field_of = _FIELD.fullmatch(verdict.field)
        if verdict.ok or verdict.rule not in _TYPE_RULES or field_of is None:
            return found
        port = field_of["side"], int(field_of["index"])
        for dtype in _fixed_types(verdict.allowed):
            consider(found, {port: dtype})
        if not found:  # a verdict is on one tensor, but another one may be what cannot change
            for dtype in dict.fromkeys(t.dtype for _, t in _fixed_tensors(node)):
                others = [at for at, t in _fixed_tensors(node) if t.dtype is not dtype]
                consider({}, dict.fromkeys(others, dtype))
    return {}


def _fixed_tensors(node: Node) -> Iterator[tuple[Port, Tensor]]:
    for side, tensors in (("in", node.inputs), ("out", node.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is not None and tensor.dtype.is_fixed_point:
                yield (side, index), tensor


def _fixed_types(allowed: Sequence[str]) -> list[DType]:
    known = [DType[name] for name in allowed if name in DType.__members__]
    return [dtype for dtype in known if dtype.is_fixed_point]


def _can_be(node: Node, port: Port, dtype: DType, target: Backend) -> bool:
    """Return whether a tensor can have a type there: if need be, the backend converts inputs."""
    tensor = _tensor_at(node, port)
    if tensor is None or not tensor.dtype.is_fixed_point:
        return False
    if port[0] == "out" or tensor.data is not None or tensor.kind.is_input:
        return True
    return _converts(tensor, tensor.dtype, dtype, target)


def _can_be_given(
    node: Node, port: Port, dtype: DType, target: Backend, given: EncodingDecision
) -> bool:
    """Return whether a tensor with a given encoding can have a type there.

    Results are never counted as signed integers again, so that the trials end.
    """
    tensor = _tensor_at(node, port)
    if tensor is None or not dtype.is_fixed_point:
        return False
    if tensor.kind.is_static or dtype is given.dtype:
        return given.counted_as(dtype) is not None
    unsigned = _unsigned(given)
    is_input = port[0] == "in"
    return dtype is unsigned or (is_input and _converts(tensor, unsigned, dtype, target))


def _unsigned(given: EncodingDecision) -> DType:
    return DType.fixed(given.dtype.bits, signed=False)


def _loss(node: Node, port: Port, dtype: DType) -> int:
    """Return how much worse a type is for a tensor: a narrower one loses most."""
    tensor = _tensor_at(node, port)
    if tensor is None:
        return 0
    wider, narrower = max(dtype.bits - tensor.dtype.bits, 0), max(tensor.dtype.bits - dtype.bits, 0)
    return 8 * narrower + 2 * wider + (dtype.is_signed != tensor.dtype.is_signed)


def _tensor_at(node: Node, port: Port) -> Tensor | None:
    side, index = port
    tensors = node.inputs if side == "in" else node.outputs
    return tensors[index] if index < len(tensors) else None


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
    return node.with_tensors(inputs, outputs)


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
