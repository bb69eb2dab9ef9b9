"""Types of the tensors of one node that a target backend accepts, by its verdicts."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import DType, Node, ScaleOffset, Tensor
from dovetail.runtime import Backend
from dovetail_opset import PACKAGE
from dovetail_quantizers.planning.encoding_decision import EncodingDecision

# The rules of verdicts on types: others may help; of the latter, a newer architecture, too.
TYPE_RULES = ("dtype", "architecture")

_FIELD = re.compile(r"(?P<side>in|out)\[(?P<index>\d+)\]\.dtype")
_MOST_VERDICTS = 500  # on forms of one node; an Lstm needs some 12

# An input or an output of a node, and its index.
Port = tuple[str, int]


def accepted_types(
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
        if verdict.ok or verdict.rule not in TYPE_RULES or field_of is None:
            return found
        port = field_of["side"], int(field_of["index"])
        for dtype in _fixed_types(verdict.allowed):
            consider(found, {port: dtype})
        if not found:  # a verdict is on one tensor, but another one may be what cannot change
            fixed = {at: t.dtype for at, t in ports(node) if t.dtype.is_fixed_point}
            for dtype in dict.fromkeys(fixed.values()):
                others = [at for at, each in fixed.items() if each is not dtype]
                consider({}, dict.fromkeys(others, dtype))
    return {}


def ports(node: Node) -> Iterator[tuple[Port, Tensor]]:
    """Yield the inputs and outputs of a node, but inputs that are left out."""
    for side, tensors in (("in", node.inputs), ("out", node.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                yield (side, index), tensor


def converts(tensor: Tensor, dtype: DType, other: DType, target: Backend) -> bool:
    """Return whether a backend converts a tensor from a type to another one."""
    source, made = (_like(tensor, each) for each in (dtype, other))
    return target.validate_op(Node("convert", PACKAGE.name, "Convert", [source], [made])).ok


def tensor_at(node: Node, port: Port) -> Tensor | None:
    """Return a node's input or output; None if it is left out."""
    side, index = port
    tensors = node.inputs if side == "in" else node.outputs
    return tensors[index] if index < len(tensors) else None


def unsigned_of(given: EncodingDecision) -> DType:
    """Return the unsigned type with the width of a given encoding."""
    return DType.fixed(given.dtype.bits, signed=False)


def _fixed_types(allowed: Sequence[str]) -> list[DType]:
    known = [DType[name] for name in allowed if name in DType.__members__]
    return [dtype for dtype in known if dtype.is_fixed_point]


def _can_be(node: Node, port: Port, dtype: DType, target: Backend) -> bool:
    """Return whether a tensor can have a type there: if need be, the backend converts inputs."""
    tensor = tensor_at(node, port)
    if tensor is None or not tensor.dtype.is_fixed_point:
        return False
    if port[0] == "out" or tensor.data is not None or tensor.kind.is_input:
        return True
    return converts(tensor, tensor.dtype, dtype, target)


def _can_be_given(
    node: Node, port: Port, dtype: DType, target: Backend, given: EncodingDecision
) -> bool:
    """Return whether a tensor with a given encoding can have a type there.

    Results are never counted as signed integers again, so that the trials end.
    """
    tensor = tensor_at(node, port)
    if tensor is None or not dtype.is_fixed_point:
        return False
    if tensor.kind.is_static or dtype is given.dtype:
        return given.with_same_points(dtype) is not None
    unsigned = unsigned_of(given)
    is_input = port[0] == "in"
    return dtype is unsigned or (is_input and converts(tensor, unsigned, dtype, target))


def _loss(node: Node, port: Port, dtype: DType) -> int:
    """Return how much worse a type is for a tensor: a narrower one loses most."""
    tensor = tensor_at(node, port)
    if tensor is None:
        return 0
    wider, narrower = max(dtype.bits - tensor.dtype.bits, 0), max(tensor.dtype.bits - dtype.bits, 0)
    return 8 * narrower + 2 * wider + (dtype.is_signed != tensor.dtype.is_signed)


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
