"""Patterns of quantization in a graph: rounding a tensor to a grid, and dequantizing it.

Where scale and zero point are known, they are the encoding between a Quantize and a Dequantize, and
a Cast gives and takes plain integers of the same bits. Where they are computed from the tensor, a
frontend writes a quotient, rounded, shifted by the zero point, clipped and cast, and the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.ir import DType, Encoding, Graph, Node, Scalar, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ir.patterns import GraphView, Match, either, find, op, value
from dovetail_opset import PACKAGE, is_op
from dovetail_quantizers.planning.encoding_decision import counted_as
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL

# Ops that only move integers of their first input.
MOVERS = frozenset(
    (
        "ChannelShuffle", "DepthToSpace", "ExpandDims", "Gather", "PoolMax2d", "PoolMax3d",
        "Reshape", "ResizeNearestNeighbor", "SpaceToDepth", "Split", "Squeeze", "StridedSlice",
        "Tile", "Transpose",
    )
)  # fmt: skip
_ROUNDED = op("ElementWiseRound", op("ElementWiseDivide", value("x"), value("scale")))
_CLIPPED = op("ReluMinMax", either(_ROUNDED, op("ElementWiseAdd", _ROUNDED, value("zero"))))
_STORED = op("Cast", value("stored"))
_REAL = op(
    "ElementWiseMultiply",
    either(_STORED, op("ElementWiseSubtract", _STORED, value("zero"))),
    value("scale"),
)

_COMPUTED = "the range is computed at run time, for each input"
_CHANNELS = "each channel has a scale of its own"
_INFINITE = "the model's scale is not finite, as of a range beyond float32"


@dataclass(frozen=True, slots=True)
class DequantizePoint:
    """The point where a tensor is dequantized.

    Attributes:
        node: The node that dequantizes.
        path: The nodes before it that move integers, in order.
    """

    node: Node
    path: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class QdqPattern:
    """The quantization of one tensor, and its dequantization.

    Attributes:
        x: The tensor.
        dtype: Its stored type.
        encoding: Its encoding; None if scale and zero point are computed from the tensor, or if the
            scale is not finite.
        ends: The points of dequantization; none if the integers have other consumers.
        why: The reason for the encoding, or why there is none.
    """

    x: Tensor
    dtype: DType
    encoding: Encoding | None
    ends: tuple[DequantizePoint, ...]
    why: str = GIVEN_BY_MODEL


@dataclass(frozen=True, slots=True)
class _Integers:
    """Integers of a tensor, or some of them, elsewhere in the graph.

    Attributes:
        tensor: They, plain or with an encoding.
        levels: Their minimum and maximum.
        path: As in `DequantizePoint`.
    """

    tensor: Tensor
    levels: tuple[float, float]
    path: tuple[Tensor, ...] = ()


def find_pattern(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the quantization pattern whose integers a node makes; None if there is none.

    It has a single scale and zero point, the same in both directions.
    """
    return _known(graph, node) or _dynamic(graph, node)


def find_channels(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the pattern of a Quantize with several scales, without its encoding; None if none.

    NNCF has such scales for the channels of a depthwise convolution's input.
    """
    x, stored = (node.inputs[0], node.outputs[0]) if is_op(node, "Quantize") else (None, None)
    if x is None or x.kind.is_static or stored is None or isinstance(stored.encoding, ScaleOffset):
        return None
    ends = tuple(end for end, _ in _ends(graph, stored, stored))
    return QdqPattern(x, stored.dtype, None, ends, _CHANNELS) if ends else None


def counted_from_lowest(dtype: DType, encoding: ScaleOffset) -> tuple[DType, ScaleOffset]:
    """Return a signed grid with a nonzero zero point as the same unsigned grid; others as given."""
    if not encoding.offset or not dtype.is_signed:
        return dtype, encoding
    unsigned = DType.fixed(dtype.bits, signed=False)
    found = counted_as(encoding, dtype, unsigned)
    assert found is not None  # unsigned integers of the same bits have any offset
    return unsigned, found


def integers_made(graph: Graph, node: Node) -> Tensor | None:
    """Return what the application gets of a Quantize with one scale, None for other nodes.

    Plain integers, or a fixed-point output of the graph; other nodes may move them before.
    """
    if not is_op(node, "Quantize") or not isinstance(node.outputs[0].encoding, ScaleOffset):
        return None
    stored = list(moved(graph, node.outputs[0]))
    readers = (reader for tensor in stored for reader in graph.consumers(tensor))
    plain = (r.outputs[0] for r in readers if r.outputs[0].dtype.is_int)
    return next(plain, None) or next(filter(graph.is_output, stored), None)


def moved(graph: Graph, stored: Tensor) -> Iterator[Tensor]:
    """Yield a fixed-point tensor and those to which nodes only move its integers."""
    return (e.tensor for e in _integers(graph, stored) if e.tensor.dtype.is_fixed_point)


def integers_given(graph: Graph, x: Tensor) -> tuple[Spec, tuple[DequantizePoint, ...]] | None:
    """Return the encoding of integers of the application, and the points of dequantization.

    None if they are not dequantized, or not with one known scale and zero point.
    """
    if not ((x.dtype.is_int and x.dtype.bits <= 16) or x.dtype.is_fixed_point):
        return None
    stored = (each.tensor for each in _integers(graph, x))
    grid = next((t for t in stored if isinstance(t.encoding, ScaleOffset)), None)
    if grid is None or grid.encoding is None:
        return None
    levels = x.dtype.stored_range(grid.encoding.bitwidth)
    ends = tuple(end for end, found in _ends(graph, x, grid) if found == levels)
    return (Spec(grid.dtype, x.shape, grid.encoding), ends) if ends else None


def begins_quantizing(graph: Graph, node: Node) -> bool:
    """Return whether a node starts an apparent quantization in small ops."""
    after = graph.only_reader(node.outputs[0]) if is_op(node, "ElementWiseDivide") else None
    return after is not None and is_op(after, "ElementWiseRound")


def is_apart(graph: Graph, x: Tensor) -> bool:
    """Return whether a fixed-point tensor only connects real numbers or plain integers."""
    maker = graph.producer(x)
    return (
        x.dtype.is_fixed_point
        and x.kind is TensorKind.NATIVE
        and maker is not None
        and is_op(maker, "Quantize", "Cast")
        and all(is_op(node, "Dequantize", "Cast") for node in graph.consumers(x))
    )


def storage_of(levels: tuple[float, float]) -> tuple[DType, int | None] | None:
    """Return the type for integers of a range, and their bits if the type has more.

    Ranges are those of 2 to 16 bits; a symmetric one may leave out the lowest integer.
    """
    low, high = levels
    bits = int(high).bit_length() + (low < 0) if math.isfinite(high) else 0
    if not 2 <= bits <= 16:
        return None
    wanted = (-(high + 1), -high) if low < 0 else (0,)
    if high != (1 << (bits - (low < 0))) - 1 or low not in wanted:
        return None
    stored = 8 if bits <= 8 else 16
    return DType.fixed(stored, signed=low < 0), bits if bits < stored else None


def _known(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the pattern of a Quantize followed by a Dequantize."""
    x, stored = (node.inputs[0], node.outputs[0]) if is_op(node, "Quantize") else (None, None)
    if x is None or x.kind.is_static or stored is None:
        return None
    if not isinstance(stored.encoding, ScaleOffset):
        return None
    found = list(_ends(graph, stored, stored))
    dtype, encoding = stored.dtype, stored.encoding
    clipped = {levels for _, levels in found}
    if clipped and clipped != {dtype.stored_range(encoding.bitwidth)}:
        narrow = storage_of(clipped.pop())
        if narrow is None or clipped:
            return None
        dtype, bits = narrow
        encoding = ScaleOffset(encoding.scale, encoding.offset, bits)
    ends = tuple(end for end, _ in found)
    return QdqPattern(x, *counted_from_lowest(dtype, encoding), ends) if ends else None


def _dynamic(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the pattern of small ops: its numbers are computed, or its scale is not finite."""
    clip = graph.producer(node.inputs[0]) if is_op(node, "Cast") and node.inputs[0] else None
    if clip is None or not is_op(clip, "ReluMinMax"):
        return None
    view = GraphView(graph, PACKAGE.name)
    there = next(find(_CLIPPED, view, clip.outputs[0]), None)
    bounds = _bounds(clip)
    storage = None if bounds is None else storage_of(bounds)
    if there is None or storage is None or there.values["x"].kind.is_static:
        return None
    numbers = _numbers(graph, there)
    why = _COMPUTED
    if all(t is None or t.kind.is_static for t in numbers):
        if numbers[0] is None or np.isfinite(numbers[0].values()).all():
            return None
        why = _INFINITE
    ends = tuple(
        DequantizePoint(product, each.path)
        for each in _integers(graph, node.outputs[0])
        for product in _products(graph, each.tensor)
        for back in find(_REAL, view, product.outputs[0])
        if back.values["stored"] is each.tensor
        and all(map(_is_equal, _numbers(graph, back), numbers))
    )
    return QdqPattern(there.values["x"], storage[0], None, ends, why) if ends else None


def _is_equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two scales or zero points are the same, or equal constants."""
    if one is None or other is None or not (one.kind.is_static and other.kind.is_static):
        return one is other
    return bool(np.array_equal(one.values(), other.values(), equal_nan=True))


def _numbers(graph: Graph, match: Match[Tensor, Node]) -> tuple[Tensor | None, ...]:
    """Return the scale and the zero point of a match, as they were first computed."""
    found: list[Tensor | None] = []
    for name in ("scale", "zero"):
        tensor = match.values.get(name)
        while tensor is not None and (maker := graph.producer(tensor)) is not None:
            if not is_op(maker, "Cast", "Convert", "Reshape"):
                break
            tensor = maker.inputs[0]
        found.append(tensor)
    return tuple(found)


def _products(graph: Graph, stored: Tensor) -> Iterator[Node]:
    """Yield the nodes that may dequantize integers by a computed scale."""
    for cast in graph.consumers(stored):
        for node in graph.consumers(cast.outputs[0]):
            if is_op(node, "ElementWiseSubtract"):
                yield from graph.consumers(node.outputs[0])
            else:
                yield node


def _ends(
    graph: Graph, stored: Tensor, grid: Tensor
) -> Iterator[tuple[DequantizePoint, tuple[float, float]]]:
    """Yield the points where integers are dequantized with the encoding of a grid, and levels."""
    for each in _integers(graph, stored):
        tensor = each.tensor
        if (tensor.dtype, tensor.encoding) == (grid.dtype, grid.encoding):
            for node in graph.consumers(tensor):
                if is_op(node, "Dequantize"):
                    yield DequantizePoint(node, each.path), each.levels


def _integers(graph: Graph, stored: Tensor) -> Iterator[_Integers]:
    """Yield integers, and what becomes of them where they are moved, clipped, or cast as they are.

    Args:
        graph: The graph.
        stored: The integers.
    """
    dtype, encoding = stored.dtype, stored.encoding
    bits = encoding.bitwidth if encoding is not None else None
    waiting = [_Integers(stored, dtype.stored_range(bits))]
    while waiting:
        found = waiting.pop(0)
        yield found
        for node in graph.consumers(found.tensor):
            if node.inputs[0] is found.tensor:
                waiting += _next(node, found)


def _next(node: Node, found: _Integers) -> Iterator[_Integers]:
    """Yield the same integers after a node that reads them, if it keeps them."""
    before, after = found.tensor, node.outputs[0]
    bounds = _bounds(node) if before.encoding is None else None
    if bounds is not None:
        levels = max(found.levels[0], bounds[0]), min(found.levels[1], bounds[1])
        yield _Integers(after, levels, found.path)
    elif is_op(node, "Cast"):
        whole = after.dtype.is_int or after.dtype.is_fixed_point
        if whole and _width(after) == _width(before):
            yield _Integers(after, found.levels, found.path)
    elif _moves(node, before) and all(t is not before for t in node.inputs[1:]):
        for moved in node.outputs:
            if (moved.dtype, moved.encoding) == (before.dtype, before.encoding):
                yield _Integers(moved, found.levels, (*found.path, moved))


def _moves(node: Node, x: Tensor) -> bool:
    """Return whether a node moves integers; its border means the same for real numbers."""
    if not is_op(node, "Pad"):
        return is_op(node, *MOVERS)
    border = node.params.get("pad_constant_value")
    is_real = border is None or (isinstance(border, Scalar) and border.dtype.is_float)
    return is_real and x.dtype.is_fixed_point


def _width(tensor: Tensor) -> tuple[int, bool]:
    return tensor.dtype.bits, tensor.dtype.is_signed


def _bounds(node: Node) -> tuple[float, float] | None:
    """Return the bounds of a clip, infinite if open; None for other nodes."""
    if is_op(node, "ReluMinMax"):
        ends = [node.params.get(name) for name in ("min_value", "max_value")]
        values = [float(end.value) for end in ends if isinstance(end, Scalar)]
        return (values[0], values[1]) if len(values) == 2 else None
    if not is_op(node, "ElementWiseMaximum", "ElementWiseMinimum"):
        return None
    limit = node.inputs[1]
    if limit is None or limit.kind is not TensorKind.STATIC or math.prod(limit.shape) != 1:
        return None
    end = float(limit.values().reshape(-1)[0])
    return (end, math.inf) if is_op(node, "ElementWiseMaximum") else (-math.inf, end)
