"""Quantizing that a model brings with it, taken out of its graph and kept as encodings.

A model that was quantized in its framework holds pairs of Quantize and Dequantize, or what a
frontend makes of them: a quotient, rounded, moved by the zero point, clipped, and all of it back.
They go; what they say is remembered for the tensor that they stood behind. A Relu that they did the
work of comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)
from dovetail.ops import OpRegistry
from dovetail.quantization import Bias, Weight
from dovetail_opset import PACKAGE
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.annotation.statics import values_of
from dovetail_quantizers.planning.clipping import clipper, put_clip
from dovetail_quantizers.planning.encoded import Encoded
from dovetail_quantizers.planning.lattice import lattice
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.roles import present, roles_of, weight_axes

_WHY = "given by the model, which was quantized before"
_ON_NO_GRID = "lie on no grid of 8 or 16 bits that could be found: they are quantized as float ones"
_ASYMMETRIC = "keep the offset of each channel that the model has; the SDK wants scales alone there"
_LEVELS = {
    (0, 255): (DType.UFIXED_POINT_8, None),
    (-128, 127): (DType.SFIXED_POINT_8, None),
    (0, 65535): (DType.UFIXED_POINT_16, None),
    (-32768, 32767): (DType.SFIXED_POINT_16, None),
    (0, 15): (DType.UFIXED_POINT_8, 4),
    (-8, 7): (DType.SFIXED_POINT_8, 4),
}
_UNSIGNED = {
    DType.SFIXED_POINT_8: DType.UFIXED_POINT_8,
    DType.SFIXED_POINT_16: DType.UFIXED_POINT_16,
}


@dataclass(frozen=True, slots=True)
class _Pair:
    """Nodes that quantize and dequantize one tensor, and what they make of it."""

    nodes: tuple[Node, ...]
    dtype: DType
    encoding: Encoding


def absorb(graph: Graph, ops: OpRegistry) -> Overrides:
    """Takes quantizing out of a graph and gives what it said.

    Args:
        graph: Changed: it computes the same without rounding, and without clipping but at zero.
        ops: Finds ops.
    """
    found = Overrides()
    clipped: dict[Tensor, Tensor] = {}
    given: dict[Tensor, Encoded] = {}  # of what was not clipped, and so keeps to it by itself
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else None
        if x is None or graph.tensors.get(x.name) is not x or x.kind.is_static:
            continue
        pair = _explicit(graph, node) or _written_out(graph, node)
        if pair is None:
            continue
        encoded = Encoded(pair.dtype, pair.encoding, _WHY)
        clip = clipper(graph, x, encoded, ops, given)
        for kept in _bypass(graph, x, pair, clip, clipped):
            found.encodings.setdefault(kept, encoded)
            found.covered.add(kept.source)
            if clip is None:
                given.setdefault(kept, encoded)
    if found.encodings:
        DeadCode().run(graph)  # the scales and zero points that nobody reads any more
        _take_weights(graph, ops, found)
    return found


def _take_weights(graph: Graph, ops: OpRegistry, found: Overrides) -> None:
    """Finds the grids of weights; a bias is then one of 32 bits, as such models have it."""
    for node in graph.nodes:
        roles = roles_of(node, ops)
        for i, tensor in present(node):
            role = roles.get(i)
            if not tensor.kind.is_static or tensor.dtype is not DType.FLOAT_32:
                continue
            if isinstance(role, Bias):
                found.widths.setdefault(tensor, 32)
            elif isinstance(role, Weight) and tensor not in found.encodings and tensor.shape:
                axis, _ = weight_axes(role, node, len(tensor.shape))
                _take_weight(tensor, axis, found)


def _take_weight(tensor: Tensor, axis: int | None, found: Overrides) -> None:
    grid = lattice(values_of(tensor), axis)
    if grid is None:
        found.remarks[tensor] = _ON_NO_GRID
        return
    dtype, encoding = grid
    found.encodings[tensor] = Encoded(dtype, encoding, _WHY)
    found.remarks.pop(tensor, None)  # another node reads it along another axis
    if isinstance(encoding, AxisScaleOffset) and encoding.offsets is not None:
        found.remarks[tensor] = _ASYMMETRIC


def _explicit(graph: Graph, node: Node) -> _Pair | None:
    """A Quantize with a Dequantize behind it."""
    if not _is(node, "Quantize") or not isinstance(node.outputs[0].encoding, ScaleOffset):
        return None
    after = _only_reader(graph, node)
    if after is None or not _is(after, "Dequantize"):
        return None
    return _Pair((node, after), node.outputs[0].dtype, node.outputs[0].encoding)


def _written_out(graph: Graph, node: Node) -> _Pair | None:
    """The same in small ops, from the quotient to the product."""
    scale = _number(node, "ElementWiseDivide")
    chain = list(_chain(graph, node))
    kinds = [n.op_type for n in chain]
    if scale is None or scale <= 0 or kinds[:2] != ["ElementWiseDivide", "ElementWiseRound"]:
        return None
    rest = [n for n in chain[2:] if n.op_type != "Cast"]
    shift = _number(rest[0], "ElementWiseAdd") if rest else None
    rest = rest[1:] if shift is not None else rest
    levels = _levels(rest[0]) if rest else None
    back = _number(rest[1], "ElementWiseSubtract") if len(rest) > 1 else None
    rest = rest[2:] if back is not None else rest[1:]
    if levels not in _LEVELS or not rest or _number(rest[0], "ElementWiseMultiply") != scale:
        return None
    zero = shift or 0.0
    if zero != (back or 0.0) or zero != int(zero):
        return None
    dtype, bitwidth = _LEVELS[levels]
    last = chain.index(rest[0])
    nodes = tuple(chain[: last + 1])
    if zero and dtype.is_signed:  # the same grid, counted from its lowest point
        return _Pair(nodes, _UNSIGNED[dtype], ScaleOffset(scale, levels[0] - int(zero), bitwidth))
    return _Pair(nodes, dtype, ScaleOffset(scale, -int(zero), bitwidth))


def _chain(graph: Graph, node: Node) -> Iterator[Node]:
    """A node and those behind it, as long as each is the only reader; no longer than a pair."""
    following: Node | None = node
    for _ in range(10):
        if following is None:
            return
        yield following
        following = _only_reader(graph, following)


def _only_reader(graph: Graph, node: Node) -> Node | None:
    if len(node.outputs) != 1 or node.outputs[0].kind is not TensorKind.NATIVE:
        return None
    readers = graph.consumers(node.outputs[0])
    return readers[0] if len(readers) == 1 else None


def _number(node: Node, op_type: str) -> float | None:
    """The one number that an op's second input is, None for anything else."""
    if not _is(node, op_type) or len(node.inputs) != 2:
        return None
    other = node.inputs[1]
    if other is None or other.kind is not TensorKind.STATIC or other.dtype is not DType.FLOAT_32:
        return None
    values = other.values()
    return float(values.reshape(-1)[0]) if values.size == 1 else None


def _levels(node: Node) -> tuple[int, int] | None:
    if not _is(node, "ReluMinMax"):
        return None
    ends = [node.params.get(name) for name in ("min_value", "max_value")]
    values = [float(e.value) for e in ends if isinstance(e, Scalar)]
    return (int(values[0]), int(values[1])) if len(values) == 2 else None


def _is(node: Node, op_type: str) -> bool:
    return node.package == PACKAGE.name and node.op_type == op_type


def _bypass(
    graph: Graph, x: Tensor, pair: _Pair, clip: str | None, clipped: dict[Tensor, Tensor]
) -> tuple[Tensor, ...]:
    """Takes a pair out, and puts a clip in its place if it did the work of one.

    Args:
        graph: Changed.
        x: What the pair quantizes.
        pair: Its nodes.
        clip: The op of the clip.
        clipped: Results of clips by what they read; gets those that are made.

    Returns:
        The tensors that are left and have the pair's encoding, none if the pair may not go.
    """
    y = pair.nodes[-1].outputs[0]
    if y.shape != x.shape or y.dtype is not x.dtype:
        return ()
    producer = graph.producer(x)
    outer = y.kind is not TensorKind.NATIVE
    if outer and (x.kind is not TensorKind.NATIVE or producer is None) and clip is None:
        return ()
    for node in reversed(pair.nodes):
        graph.remove_node(node)
    for node in pair.nodes[:-1]:
        graph.remove_tensor(node.outputs[0])
    if clip is not None:
        return x, _clipped(graph, x, y, clip, clipped)
    if not outer:
        graph.replace_uses(y, x)
        graph.remove_tensor(y)
        return (x,)
    assert producer is not None
    graph.replace_uses(x, y)
    graph.set_outputs(producer, [y if t is x else t for t in producer.outputs])
    graph.remove_tensor(x)
    return (y,)


def _clipped(
    graph: Graph, x: Tensor, y: Tensor, clip: str, clipped: dict[Tensor, Tensor]
) -> Tensor:
    """Gives what a clip of one tensor makes, in the place of another."""
    if y.kind is not TensorKind.NATIVE:
        return put_clip(graph, x, clip, y)
    if x not in clipped:
        clipped[x] = put_clip(graph, x, clip, None)
    made = clipped[x]
    graph.replace_uses(y, made)
    graph.remove_tensor(y)
    return made
