"""Integers of 64 bits whose values fit 32 bits, in 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Graph, Node, Tensor, TensorKind, pack
from dovetail_opset._package import is_op
from dovetail_opset.build import static
from dovetail_opset.passes._rewrite import bound, bypass, first_input, is_constant

Range = tuple[int, int]
_WIDE, _NARROW = DType.INT_64, DType.INT_32
_LOWEST, _HIGHEST = _NARROW.stored_range()
_SUMS = ("ReduceSum", "CumulativeSum")
_SCATTERS = ("ScatterElements", "ScatterNd")


def _moved(ins: Sequence[Range]) -> Range:
    return ins[0]


def _any_of(ins: Sequence[Range]) -> Range:
    return min(low for low, _ in ins), max(high for _, high in ins)


def _sum(ins: Sequence[Range]) -> Range:
    (a, b), (c, d) = ins
    return a + c, b + d


def _difference(ins: Sequence[Range]) -> Range:
    (a, b), (c, d) = ins
    return a - d, b - c


def _product(ins: Sequence[Range]) -> Range:
    (a, b), (c, d) = ins
    ends = (a * c, a * d, b * c, b * d)
    return min(ends), max(ends)


def _maximum(ins: Sequence[Range]) -> Range:
    return max(low for low, _ in ins), max(high for _, high in ins)


def _minimum(ins: Sequence[Range]) -> Range:
    return min(low for low, _ in ins), min(high for _, high in ins)


# Ops whose operands of 64 bits may all have 32, and the range of their results from those of these
# operands. Comparisons have other results.
_RESULTS: Mapping[str, Callable[[Sequence[Range]], Range]] = {
    **dict.fromkeys(
        ("Reshape", "ExpandDims", "Squeeze", "Transpose", "StridedSlice", "Split", "Tile"), _moved
    ),
    **dict.fromkeys(("Gather", "GatherElements", "GatherNd"), _moved),
    **dict.fromkeys(("Concat", "Pack", "ElementWiseSelect", *_SCATTERS), _any_of),
    "ElementWiseAdd": _sum,
    "ElementWiseSubtract": _difference,
    "ElementWiseMultiply": _product,
    "ElementWiseMaximum": _maximum,
    "ElementWiseMinimum": _minimum,
    **dict.fromkeys(
        (
            "ElementWiseEqual",
            "ElementWiseNotEqual",
            "ElementWiseGreater",
            "ElementWiseGreaterEqual",
            "ElementWiseLess",
            "ElementWiseLessEqual",
        ),
        _moved,
    ),
}


@dataclass(frozen=True, slots=True)
class NarrowIntegers:
    """Compute 64-bit integers in 32 bits where that gives the same values.

    Frontends have 64-bit integers for shapes and indices, and most backends have none. Integers
    that were cast from 32 bits, such as inputs to which the user gave that type, stay in range
    through moves, sums and limits; limits that do nothing there are removed.
    """

    name: str = "narrow-integers"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        ranges = _ranges(graph)
        small = {t for t, (low, high) in ranges.items() if low >= _LOWEST and high <= _HIGHEST}
        inner = {t for t in small if t.kind is TensorKind.NATIVE and t.dtype is _WIDE}
        nodes = narrow(
            graph,
            {_WIDE: _NARROW},
            inner | {t for t in small if is_constant(t)},
            lambda node: is_op(node, *_RESULTS, *_SUMS),
        )
        for node in nodes:
            drop_limit(graph, node, ranges)
        return bool(nodes)


def _ranges(graph: Graph) -> dict[Tensor, Range]:
    """Return the range of each tensor of integers for which more is known than its type says."""
    found: dict[Tensor, Range] = {}
    for tensor in graph.tensors.values():
        if tensor.dtype.is_int and is_constant(tensor) and 0 not in tensor.shape:
            values = tensor.values()
            found[tensor] = int(values.min()), int(values.max())
    for node in graph.nodes:
        for tensor in node.outputs:
            if not tensor.dtype.is_int or (known := _result(node, tensor, found)) is None:
                continue
            low, high = tensor.dtype.stored_range()
            if low <= known[0] and known[1] <= high:  # else it wraps
                found[tensor] = known
    return found


def _result(node: Node, y: Tensor, found: Mapping[Tensor, Range]) -> Range | None:
    """Return the range of a node's result, of integers; None if it is not known."""
    x = node.inputs[0]
    if x is None:
        return None
    if is_op(node, "Cast") or (is_op(node, "TopK") and y is node.outputs[0]):
        return _range_of(x, found)
    if is_op(node, "TopK", "Argmax", "Argmin"):  # positions on an axis
        return 0, max(x.shape, default=1)
    if is_op(node, *_SUMS):
        known, results = _range_of(x, found), math.prod(y.shape) if is_op(node, "ReduceSum") else 1
        terms = math.prod(x.shape) // max(1, results)
        return known and (min(0, known[0] * terms), max(0, known[1] * terms))
    if not is_op(node, *_RESULTS) or (is_op(node, *_SCATTERS) and _adds(node)):
        return None
    ranges = [_range_of(t, found) for t in node.inputs if t is not None and t.dtype.is_int]
    known_ranges = [each for each in ranges if each is not None]
    is_known = known_ranges and len(known_ranges) == len(ranges)
    return _RESULTS[node.op_type](known_ranges) if is_known else None


def _adds(node: Node) -> bool:
    """Return whether a node combines elements with those that it replaces."""
    op: Any = bound(node)
    return op is None or op.reduction != 0


def _range_of(tensor: Tensor, found: Mapping[Tensor, Range]) -> Range | None:
    """Return the range of a tensor; None for real numbers and for wide integers of any size."""
    if tensor in found:
        return found[tensor]
    if tensor.dtype is DType.BOOL_8:
        return 0, 1
    is_small = tensor.dtype.is_int and tensor.dtype.bits <= _NARROW.bits
    return tensor.dtype.stored_range() if is_small else None


def narrow(
    graph: Graph,
    types: Mapping[DType, DType],
    tensors: Collection[Tensor],
    takes: Callable[[Node], bool],
) -> list[Node]:
    """Narrow the types of tensors where all nodes that write and read them allow it.

    Args:
        graph: The graph, changed in place.
        types: The narrower type for each wide one.
        tensors: The tensors that may have other types.
        takes: Whether a node computes the same on narrower types; casts are not asked about.

    Returns:
        The nodes that compute in narrower types.
    """
    if not tensors:
        return []
    constants = {t for t in tensors if is_constant(t)}
    inner = {t for t in tensors if t not in constants and t.dtype in types}
    nodes = _narrowed(graph, types, inner, constants, takes)
    casts = [node for t in inner if (node := graph.producer(t)) is not None and is_op(node, "Cast")]
    for tensor in inner:
        tensor.dtype = types[tensor.dtype]
    for node in nodes:
        _narrow_constants(graph, node, nodes, types)
    return [*nodes, *casts]


def _narrowed(
    graph: Graph,
    types: Collection[DType],
    inner: set[Tensor],
    constants: set[Tensor],
    takes: Callable[[Node], bool],
) -> list[Node]:
    """Return the nodes that become narrow, and remove from `inner` what others need wide."""
    while True:
        nodes: list[Node] = []
        rejected: set[Tensor] = set()
        for node in graph.nodes:
            wide = [t for t in (*node.inputs, *node.outputs) if t is not None and t.dtype in types]
            if is_op(node, "Cast") or not wide:
                continue
            if takes(node) and all(t in inner or t in constants for t in wide):
                nodes.append(node)
            else:
                rejected.update(t for t in wide if t in inner)
        if not rejected:
            return nodes
        inner -= rejected


def _narrow_constants(
    graph: Graph, node: Node, nodes: Sequence[Node], types: Mapping[DType, DType]
) -> None:
    inputs = list(node.inputs)
    for i, tensor in enumerate(inputs):
        if tensor is None or tensor.dtype not in types:
            continue
        dtype = types[tensor.dtype]
        values = _fitted(tensor.values(), dtype)
        if all(reader in nodes for reader in graph.consumers(tensor)):
            tensor.data, tensor.dtype = pack(values, dtype), dtype
        else:
            inputs[i] = static(graph, tensor.name, values, dtype, source=tensor.source)
    graph.set_inputs(node, inputs)


def _fitted(values: Array, dtype: DType) -> Array:
    """Return values of a narrower type: those beyond it become its limits, infinities stay."""
    if dtype.is_int:
        return values.clip(*dtype.stored_range()).astype(dtype.storage)
    most = float(np.finfo(dtype.storage.name).max)
    found = np.where(np.isinf(values), values, values.clip(-most, most))
    return np.asarray(found, dtype.storage)


def drop_limit(graph: Graph, node: Node, ranges: Mapping[Tensor, Range]) -> None:
    """Remove a maximum or minimum with a constant that no value of its first input reaches.

    Args:
        graph: The graph, changed in place.
        node: A node of any op.
        ranges: The ranges of integers for which more is known than their type says.
    """
    if not is_op(node, "ElementWiseMaximum", "ElementWiseMinimum") or None in node.inputs:
        return
    x, limit = first_input(node), node.inputs[1]
    known = _range_of(x, ranges) if x.dtype.is_int else None
    if limit is None or not is_constant(limit) or known is None:
        return
    low, high = known
    values = limit.values()
    is_idle = values.max() <= low if node.op_type == "ElementWiseMaximum" else values.min() >= high
    if is_idle:
        bypass(graph, node)
