"""Patterns of quantization in a graph: rounding a tensor to a grid, and dequantizing it.

The patterns consist of Quantize and Dequantize, or of the ops that a frontend creates for them: a
quotient, rounded, shifted by the zero point, clipped, and the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.ir import DType, Encoding, Graph, Node, Scalar, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset import is_op

# Ops that only move integers of their first input.
_MOVERS = frozenset(
    (
        "ChannelShuffle", "DepthToSpace", "ExpandDims", "Gather", "PoolMax2d", "PoolMax3d",
        "Reshape", "ResizeNearestNeighbor", "SpaceToDepth", "Split", "Squeeze", "StridedSlice",
        "Tile", "Transpose",
    )
)  # fmt: skip
_CASTS = ("Cast", "Convert")
# Maximum number of steps between a quotient and its dequantization.
_MOST_STEPS = 10
# Offsets have 32 bits.
_GREATEST_ZERO = 2**30


@dataclass(frozen=True, slots=True)
class DequantizePoint:
    """The point where a tensor is dequantized.

    Attributes:
        node: The node that dequantizes; or a Softmax whose factor includes the product.
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
        encoding: Its encoding; None if scale and zero point are computed from the tensor.
        ends: The points of dequantization; none if the integers have other consumers.
    """

    x: Tensor
    dtype: DType
    encoding: Encoding | None
    ends: tuple[DequantizePoint, ...]


# A known number, or the tensor that contains it.
_Operand = float | Tensor


def quantizing_of(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the quantization pattern that starts at a node; None if there is none.

    It has a single scale and zero point, the same in both directions.
    """
    if not node.inputs or node.inputs[0] is None or node.inputs[0].kind.is_static:
        return None
    return _explicit(graph, node) or _written_out(graph, node)


def begins_quantizing(graph: Graph, node: Node) -> bool:
    """Return whether a node starts an apparent quantization, even if unsupported."""
    if node.inputs and node.inputs[0] is not None and node.inputs[0].kind.is_static:
        return False
    if is_op(node, "Quantize"):
        return True
    after = graph.only_reader(node.outputs[0]) if is_op(node, "ElementWiseDivide") else None
    return after is not None and is_op(after, "ElementWiseRound")


def ends_quantizing(node: Node) -> bool:
    """Return whether a node dequantizes a computed integer tensor."""
    x = node.inputs[0] if node.inputs else None
    return x is not None and is_op(node, "Dequantize") and not x.kind.is_static


def makes_real(graph: Graph, node: Node) -> bool:
    """Return whether a node starts a dequantization: a cast to float followed by a product."""
    if not is_op(node, *_CASTS) or not node.outputs[0].dtype.is_float:
        return False
    after = graph.only_reader(node.outputs[0])
    if after is not None and is_op(after, "ElementWiseSubtract"):
        after = graph.only_reader(after.outputs[0])
    return after is not None and is_op(after, "ElementWiseMultiply")


def is_number(tensor: Tensor | None) -> float | None:
    """Return the number in a static tensor of one element; None for anything else."""
    if tensor is None or tensor.kind is not TensorKind.STATIC or tensor.encoding is not None:
        return None
    if tensor.dtype is DType.STRING:
        return None
    values = tensor.values()
    return float(values.reshape(-1)[0]) if values.size == 1 else None


def factor_of(node: Node) -> float | None:
    """Return the factor that a Softmax applies to its input, None without one.

    A pass fused it; the dequantizing product may be part of it.
    """
    beta = node.params.get("beta") if is_op(node, "Softmax", "LogSoftmax") else None
    return float(beta.value) if isinstance(beta, Scalar) else None


def storage_of(levels: tuple[int, int]) -> tuple[DType, int | None] | None:
    """Return the type for integers of a range, and their bits if the type has more.

    Ranges are those of 2 to 16 bits; a symmetric one may leave out the lowest integer.
    """
    low, high = levels
    bits = high.bit_length() + (low < 0)
    if not 2 <= bits <= 16:
        return None
    wanted = (-(high + 1), -high) if low < 0 else (0,)
    if high != (1 << (bits - (low < 0))) - 1 or low not in wanted:
        return None
    stored = 8 if bits <= 8 else 16
    return DType.fixed(stored, signed=low < 0), bits if bits < stored else None


def _explicit(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the pattern of a Quantize followed by a Dequantize."""
    x, stored = node.inputs[0], node.outputs[0]
    if not is_op(node, "Quantize") or not isinstance(stored.encoding, ScaleOffset) or x is None:
        return None
    ends = tuple(_ends(graph, stored, None))
    return QdqPattern(x, stored.dtype, stored.encoding, ends) if ends else None


def _written_out(graph: Graph, node: Node) -> QdqPattern | None:
    """Return the pattern of small ops, from the quotient to the product."""
    found = _quotient(graph, node)
    if found is None:
        return None
    ends = tuple(_ends(graph, found.last, (found.scale, found.zero)))
    if not ends:
        return None
    if isinstance(found.scale, Tensor) or isinstance(found.zero, Tensor):
        return QdqPattern(found.x, found.dtype, None, ends)
    return QdqPattern(found.x, *counted_from_lowest(found.dtype, _encoding(found)), ends)


@dataclass(frozen=True, slots=True)
class _Quotient:
    """A quotient, rounded, shifted by the zero point and clipped."""

    x: Tensor
    scale: _Operand
    zero: _Operand
    dtype: DType
    bitwidth: int | None
    last: Tensor


def _quotient(graph: Graph, node: Node) -> _Quotient | None:
    scale = _second(graph, node, "ElementWiseDivide")
    x = node.inputs[0]
    rounding = graph.only_reader(node.outputs[0])
    if scale is None or rounding is None or x is None or not is_op(rounding, "ElementWiseRound"):
        return None
    zero, levels, last = _clipped(graph, rounding.outputs[0])
    stored = None if levels is None else storage_of(levels)
    if stored is None or _is_no_grid(scale, zero):
        return None
    return _Quotient(x, scale, zero, *stored, last)


def _is_no_grid(scale: _Operand, zero: _Operand) -> bool:
    """Return whether known numbers cannot be a scale and a zero point."""
    if isinstance(scale, float) and not 0 < scale < math.inf:
        return True
    return isinstance(zero, float) and not (zero.is_integer() and abs(zero) < _GREATEST_ZERO)


def _encoding(found: _Quotient) -> ScaleOffset:
    assert isinstance(found.scale, float)
    assert isinstance(found.zero, float)
    return ScaleOffset(found.scale, -int(found.zero), found.bitwidth)


def counted_from_lowest(dtype: DType, encoding: ScaleOffset) -> tuple[DType, ScaleOffset]:
    """Return a signed grid with a nonzero zero point as the same unsigned grid; others as given."""
    if not encoding.offset or not dtype.is_signed:
        return dtype, encoding
    low, _ = dtype.stored_range(encoding.bitwidth)
    unsigned = ScaleOffset(encoding.scale, encoding.offset + low, encoding.bitwidth)
    return DType.fixed(dtype.bits, signed=False), unsigned


def integers_made(graph: Graph, node: Node) -> tuple[Tensor, Spec, Tensor] | None:
    """Return the input, encoding and integers of a quantization that starts at a node, or None."""
    found = _quotient(graph, node) if is_op(node, "ElementWiseDivide") else None
    if found is None or isinstance(found.scale, Tensor) or isinstance(found.zero, Tensor):
        return None
    kind = (found.last.dtype.bits, found.last.dtype.is_signed)
    if not found.last.dtype.is_int or kind != (found.dtype.bits, found.dtype.is_signed):
        return None
    return found.x, Spec(found.dtype, found.last.shape, _encoding(found)), found.last


def integers_given(graph: Graph, x: Tensor) -> tuple[Spec, tuple[DequantizePoint, ...]] | None:
    """Return the encoding of integers of the application, and the points of dequantization.

    None if they are not dequantized, or not with one known scale and zero point.
    """
    numbers = next(_numbers(graph, x), None)
    if not x.dtype.is_int or x.dtype.bits > 16 or numbers is None or _is_no_grid(*numbers):
        return None
    dtype = DType.fixed(x.dtype.bits, signed=x.dtype.is_signed)
    scale, zero = numbers
    ends = tuple(_ends(graph, x, numbers))
    return (Spec(dtype, x.shape, ScaleOffset(scale, -int(zero))), ends) if ends else None


def _numbers(graph: Graph, stored: Tensor) -> Iterator[tuple[float, float]]:
    """Yield the scales and zero points of the dequantizations of integers."""
    for node in graph.consumers(stored):
        if is_op(node, *_MOVERS) and node.inputs[0] is stored:
            for moved in node.outputs:
                yield from _numbers(graph, moved)
        if not is_op(node, *_CASTS) or not node.outputs[0].dtype.is_float:
            continue
        after, zero = graph.only_reader(node.outputs[0]), 0.0
        shift = None if after is None else _second(graph, after, "ElementWiseSubtract")
        if after is not None and isinstance(shift, float):
            after, zero = graph.only_reader(after.outputs[0]), shift
        scale = None if after is None else _second(graph, after, "ElementWiseMultiply")
        if isinstance(scale, float):
            yield scale, zero


def _clipped(graph: Graph, rounded: Tensor) -> tuple[_Operand, tuple[int, int] | None, Tensor]:
    """Return zero point and range of the integers of a rounded quotient, and their tensor."""
    zero: _Operand = 0.0
    low, high, last = None, None, rounded
    for _ in range(_MOST_STEPS):
        node = graph.only_reader(last)
        if node is None:
            break
        bounds = _bounds(graph, node)
        shift = _second(graph, node, "ElementWiseAdd")
        if shift is not None and low is None and zero == 0:
            zero = shift
        elif bounds is not None:
            low = bounds[0] if low is None else max(low, bounds[0])
            high = bounds[1] if high is None else min(high, bounds[1])
        elif not is_op(node, *_CASTS) or (low is not None and not _narrows(node)):
            break
        last = node.outputs[0]
    if low is None or high is None or not abs(low) < 2**17 or not abs(high) < 2**17:
        return zero, None, last
    return zero, (int(low), int(high)), last


def _narrows(node: Node) -> bool:
    """Return whether a cast is to integers, not the following one to float."""
    return not node.outputs[0].dtype.is_float


def _bounds(graph: Graph, node: Node) -> tuple[float, float] | None:
    """Return the bounds of a clip, infinite if open; None for other nodes."""
    if is_op(node, "ReluMinMax"):
        ends = [node.params.get(name) for name in ("min_value", "max_value")]
        values = [float(e.value) for e in ends if isinstance(e, Scalar)]
        return (values[0], values[1]) if len(values) == 2 else None
    minimum = _second(graph, node, "ElementWiseMaximum")
    if isinstance(minimum, float):
        return minimum, float("inf")
    most = _second(graph, node, "ElementWiseMinimum")
    return (float("-inf"), most) if isinstance(most, float) else None


def _ends(
    graph: Graph,
    stored: Tensor,
    numbers: tuple[_Operand, _Operand] | None,
    path: tuple[Tensor, ...] = (),
) -> Iterator[DequantizePoint]:
    """Yield the points where integers are dequantized.

    Args:
        graph: The graph.
        stored: The integers.
        numbers: Scale and zero point; None if the tensors' encodings have them.
        path: As in `DequantizePoint`, so far.
    """
    for node in graph.consumers(stored):
        if node.inputs[0] is not stored:
            continue
        if numbers is None and is_op(node, "Dequantize"):
            yield DequantizePoint(node, path)
        elif is_op(node, *_MOVERS) and all(t is not stored for t in node.inputs[1:]):
            for moved in node.outputs:
                if moved.dtype is stored.dtype and moved.encoding == stored.encoding:
                    yield from _ends(graph, moved, numbers, (*path, moved))
        elif numbers is not None:
            yield from _real_ends(graph, node, numbers, path)


def _real_ends(
    graph: Graph, node: Node, numbers: tuple[_Operand, _Operand], path: tuple[Tensor, ...]
) -> Iterator[DequantizePoint]:
    """Yield the points of dequantization at a node that does not move integers."""
    scale, zero = numbers
    shift = _second(graph, node, "ElementWiseSubtract")
    if is_op(node, *_CASTS) and node.outputs[0].dtype.is_float:
        yield from _ends(graph, node.outputs[0], numbers, path)
    elif shift is not None and shift == zero:
        yield from _ends(graph, node.outputs[0], (scale, 0.0), path)
    elif zero == 0:
        taken = factor_of(node) is not None and isinstance(scale, float)
        if taken or _second(graph, node, "ElementWiseMultiply") == scale:
            yield DequantizePoint(node, path)


def _second(graph: Graph, node: Node, op_type: str) -> _Operand | None:
    """Return the second input of an op: a number if it is known, else the tensor."""
    if not is_op(node, op_type) or len(node.inputs) != 2:
        return None
    other = node.inputs[1]
    while other is not None and (maker := graph.producer(other)) is not None:
        if not is_op(maker, *_CASTS, "Reshape"):
            break
        other = maker.inputs[0]
    if other is None or math.prod(other.shape) != 1:
        return None
    return is_number(other) if other.kind.is_static else other
