"""Ops that some backends lack, written out in ops that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dovetail.ir import DType, Graph, Node, Spec, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.build import add, add_all, static
from dovetail_opset.ops.slicing import PadScheme
from dovetail_opset.passes._divisions import (
    divides_integers,
    write_out_floor_div,
    write_out_fmod,
    write_out_mod,
)
from dovetail_opset.passes._gru import Step, can_write_out_gru, write_out_gru
from dovetail_opset.passes._rewrite import bound, first_input, is_any_float, is_constant
from dovetail_opset.passes._rotary import rotates_known_sizes, write_out_rotary_embedding

# Beyond this, a float32 does not distinguish log(1 + exp(x)) from x.
_LARGE = 16.0
# Elements of the filters that a transform becomes: 2,048 samples in a frame need half of them.
_MOST_FILTERS = 1 << 23
# Ops that do the same with bools and with integers, and which of their inputs these are.
_ON_INTEGERS: Mapping[str, slice] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherNd"), slice(1)),
    **dict.fromkeys(("Split", "StridedSlice", "Tile"), slice(1)),
    **dict.fromkeys(("Concat", "ElementWiseEqual", "ElementWiseNotEqual"), slice(None)),
    "ElementWiseSelect": slice(1, None),
}
_EXTREMES = {"ElementWiseMaximum": "ElementWiseGreater", "ElementWiseMinimum": "ElementWiseLess"}


@dataclass(frozen=True, slots=True)
class WriteOut:
    """Replace nodes of some ops by nodes of others with the same result.

    Attributes:
        op_types: Their names; see `can_write_out`.
    """

    op_types: Collection[str]
    name: str = "write-out"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        nodes = [n for n in nodes_of(graph, *self.op_types) if can_write_out(n)]
        for node in nodes:
            graph.remove_node(node)
            _WRITERS[node.op_type](graph, node, partial(_step, graph, node))
            last = next((p for t in node.outputs if (p := graph.producer(t)) is not None), None)
            if last is not None:
                graph.rename({}, {last: node.name})
            _remove_unread(graph, node)
        return bool(nodes)


def can_write_out(node: Node, *, before_quantization: bool = False) -> bool:
    """Return whether a node can be written out in other ops.

    Args:
        node: The node.
        before_quantization: Whether fixed-point inputs count as the floats that they were.
    """
    if bound(node) is None:
        return False
    if (of_some := _OF_SOME.get(node.op_type)) is not None:
        return of_some(node)
    of_floats = _OF_FLOATS.get(node.op_type)
    if of_floats is None:
        return False
    given = [t for t in node.inputs if t is not None]
    are_real = all(
        is_any_float(t) or (before_quantization and t.dtype.is_fixed_point) for t in given
    )
    return are_real and of_floats(node)


def integers_in(node: Node) -> DType | None:
    """Return the type for which backends may lack an op: BOOL_8 or INT_32; None for other nodes."""
    if is_op(node, *_ON_INTEGERS) and any(t.dtype is DType.BOOL_8 for t in _operands(node)):
        return DType.BOOL_8
    of_numbers = (*_EXTREMES, "ElementWiseFloorDiv", "Pad")
    if is_op(node, *of_numbers) and first_input(node).dtype is DType.INT_32:
        return DType.INT_32
    if is_op(node, "Pad") and first_input(node).dtype is DType.BOOL_8:
        return DType.BOOL_8
    return None


def _operands(node: Node) -> list[Tensor]:
    """Return the inputs of an op of `_ON_INTEGERS` that may be integers."""
    return [t for t in node.inputs[_ON_INTEGERS[node.op_type]] if t is not None]


def _step(
    graph: Graph, node: Node, op_type: str, *inputs: Tensor | float | None, **params: Any
) -> Tensor:
    """Add a node in place of another one; numbers become constants of its input's type."""
    dtype = first_input(node).dtype
    given = [
        each
        if each is None or isinstance(each, Tensor)
        else static(graph, f"{node.name}.number", np.array(each, dtype.storage))
        for each in inputs
    ]
    name = f"{node.name}.{op_type.removeprefix('ElementWise').lower()}"
    return add(graph, op_type, given, name=name, sources=node.sources, **params)


def _remove_unread(graph: Graph, node: Node) -> None:
    """Remove the constants that only this node read."""
    for tensor in node.inputs:
        if tensor is not None and is_constant(tensor) and not graph.is_read(tensor):
            graph.remove_tensor(tensor)


def _col_2_im(graph: Graph, node: Node, step: Step) -> None:
    # each channel is a group, whose filters have a single 1: at the element of the window
    op: Any = bound(node)
    x, y = first_input(node), node.outputs[0]
    window, (batch, *size, channels) = op.window, y.shape
    counts = window.outputs(tuple(size))
    taps = math.prod(window.size)
    filters = np.zeros((*window.spans, channels, taps), x.dtype.storage)
    for tap, place in enumerate(np.ndindex(window.size)):
        at = tuple(i * dilation for i, dilation in zip(place, window.dilation, strict=True))
        filters[(*at, slice(None), tap)] = 1
    extras = [
        have - (stride * (count - 1) + span - sum(pads))
        for have, stride, count, span, pads in zip(
            size, window.stride, counts, window.spans, window.pads, strict=True
        )
    ]
    rows = step("Transpose", x, perm=[0, 2, 1])
    image = step("Reshape", rows, spec=Spec(x.dtype, (batch, *counts, x.shape[1])))
    weight = filters.reshape(*window.spans, channels * taps, 1)
    step(
        "TransposeConv2d",
        image,
        static(graph, f"{node.name}.weight", weight),
        outputs=y,
        stride=op.stride,
        pad_amount=op.pad_amount,
        group=channels,
        output_padding=extras,
    )


def _group_norm(graph: Graph, node: Node, step: Step) -> None:
    # an InstanceNorm whose channels are the groups
    op: Any = bound(node)
    x, y, (gamma, beta) = first_input(node), node.outputs[0], (*node.inputs[1:], None, None)[:2]
    batch, *space, channels = x.shape
    shape = (batch, math.prod(space), op.group, channels // op.group)
    turned = step("Transpose", step("Reshape", x, spec=Spec(x.dtype, shape)), perm=[0, 1, 3, 2])
    rows = step("Reshape", turned, spec=Spec(x.dtype, (batch, shape[1] * shape[3], shape[2])))
    ones = static(graph, f"{node.name}.ones", np.ones(op.group, x.dtype.storage))
    rows = step("InstanceNorm", rows, ones, epsilon=op.epsilon)
    turned = step("Reshape", rows, spec=turned.spec)
    found = step("Transpose", turned, perm=[0, 1, 3, 2])
    if gamma is not None or beta is not None:
        found = step("Reshape", found, spec=y.spec)
    if gamma is not None and beta is not None:
        found = step("ElementWiseMultiply", found, gamma)
    if beta is not None:
        step("ElementWiseAdd", found, beta, outputs=y)
    elif gamma is not None:
        step("ElementWiseMultiply", found, gamma, outputs=y)
    else:
        step("Reshape", found, outputs=y)


def _is_nan(graph: Graph, node: Node, step: Step) -> None:
    # NaN alone differs from itself
    x = first_input(node)
    step("ElementWiseNotEqual", x, x, outputs=node.outputs[0])


def _on_integers(graph: Graph, node: Node, step: Step) -> None:
    integers = {t: _as_integers(graph, t, step) for t in _operands(node)}
    op = bound(node)
    params = {name: getattr(op, name) for name in node.params}
    given = [t if t is None else integers.get(t, t) for t in node.inputs]
    if is_op(node, "ElementWiseEqual", "ElementWiseNotEqual"):
        step(node.op_type, *given, outputs=node.outputs[0], **params)
        return
    found = add_all(
        graph,
        node.op_type,
        given,
        name=f"{node.name}.integers",
        outputs=[graph.fresh_name(f"{y.name}.integers") for y in node.outputs],
        sources=node.sources,
        **params,
    )
    for integer, y in zip(found, node.outputs, strict=True):
        step("Cast", integer, outputs=y)


def _as_integers(graph: Graph, bools: Tensor, step: Step) -> Tensor:
    # of several readers, such as the slices of a loop, the first adds the cast
    if is_constant(bools):
        return static(graph, f"{bools.name}.integers", bools.values().astype(np.int32))
    casts = (reader for reader in graph.consumers(bools) if is_op(reader, "Cast"))
    known = (cast.outputs[0] for cast in casts if cast.outputs[0].dtype is DType.INT_32)
    return next(known, None) or step("Cast", bools, spec=Spec(DType.INT_32, bools.shape))


def _adds_blocks(node: Node) -> bool:
    op: Any = bound(node)
    is_known = integers_in(node) is not None and not any(first_input(node).dynamic)
    return is_known and op.scheme is PadScheme.CONSTANT and bool(op.pad_amount.any())


def _pad(graph: Graph, node: Node, step: Step) -> None:
    # between blocks of the constant, axis by axis
    op: Any = bound(node)
    x, y = first_input(node), node.outputs[0]
    is_bool = x.dtype is DType.BOOL_8
    found = _as_integers(graph, x, step) if is_bool else x
    pads = [(axis, pair) for axis, pair in enumerate(op.pad_amount.tolist()) if any(pair)]
    for axis, pair in pads:
        before, after = (
            [_block(graph, node, found, axis, count)] if count else [] for count in pair
        )
        is_last = axis == pads[-1][0] and not is_bool
        found = step("Concat", *before, found, *after, axis=axis, outputs=y if is_last else None)
    if is_bool:
        step("Cast", found, outputs=y)


def _block(graph: Graph, node: Node, beside: Tensor, axis: int, count: int) -> Tensor:
    """Add what a Pad of integers puts next to a tensor along an axis."""
    op: Any = bound(node)
    shape = (*beside.shape[:axis], count, *beside.shape[axis + 1 :])
    value = first_input(node).dtype.storage.type(op.pad_constant_value)  # a bool of 0.5 is true
    return static(graph, f"{node.name}.block", np.full(shape, value, np.int32))


def _pool_max_3d(graph: Graph, node: Node, step: Step) -> None:
    # the planes by height and width, then all of them by depth
    op: Any = bound(node)
    x, y = first_input(node), node.outputs[0]
    (batch, depth, *plane, channels), (_, _, *pooled, _) = x.shape, y.shape
    filters, strides, pads = (
        np.asarray(each) for each in (op.filter_size, op.stride, op.pad_amount)
    )
    rounding = op.rounding_mode
    planes = step("Reshape", x, spec=Spec(x.dtype, (batch * depth, *plane, channels)))
    planes = step(
        "PoolMax2d",
        planes,
        filter_size=filters[1:],
        stride=strides[1:],
        pad_amount=pads[1:],
        rounding_mode=rounding,
    )
    shape = (batch, depth, math.prod(pooled), channels)
    found = step(
        "PoolMax2d",
        step("Reshape", planes, spec=Spec(x.dtype, shape)),
        filter_size=[filters[0], 1],
        stride=[strides[0], 1],
        pad_amount=[pads[0], (0, 0)],
        rounding_mode=rounding,
    )
    step("Reshape", found, outputs=y)


def _can_write_out_reduction(node: Node) -> bool:
    x = first_input(node)
    if is_op(node, "ReduceSumSquare"):
        return bool(x.shape)
    return 0 not in x.shape and not any(x.dynamic)


def _reduce_prod(graph: Graph, node: Node, step: Step) -> None:
    # on each axis, the first half by the second, until one element is left
    op: Any = bound(node)
    x = first_input(node)
    for axis in map(int, op.axes):
        while (size := x.shape[axis]) > 1:
            half = size // 2
            product = step(
                "ElementWiseMultiply",
                _part(step, x, axis, 0, half),
                _part(step, x, axis, half, 2 * half),
            )
            if size > 2 * half:
                product = step("Concat", product, _part(step, x, axis, size - 1, size), axis=axis)
            x = product
    step("Reshape", x, outputs=node.outputs[0])


def _part(step: Step, x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """Return some elements of an axis."""
    ranges = [(begin, end, 1) if a == axis else (0, size, 1) for a, size in enumerate(x.shape)]
    return step("StridedSlice", x, ranges=ranges)


def _reduce_sum_square(graph: Graph, node: Node, step: Step) -> None:
    x, op = first_input(node), bound(node)
    params = {name: getattr(op, name) for name in node.params}
    square = step("ElementWiseMultiply", x, x)
    step("ReduceSum", square, outputs=node.outputs[0], **params)


def _extreme(graph: Graph, node: Node, step: Step) -> None:
    first, second = node.inputs
    chosen = step(_EXTREMES[node.op_type], first, second)
    step("ElementWiseSelect", chosen, first, second, outputs=node.outputs[0])


def _is_plain_softplus(node: Node) -> bool:
    op: Any = bound(node)
    return bool(op.beta == 1 and not 0 <= op.threshold < _LARGE)


def _softplus(graph: Graph, node: Node, step: Step) -> None:
    # max(x, 0) + log(1 + exp(-|x|)), in which no part overflows
    x = first_input(node)
    small = step("ElementWiseExp", step("ElementWiseNeg", step("ElementWiseAbs", x)))
    rest = step("ElementWiseLog", step("ElementWiseAdd", small, 1.0))
    step("ElementWiseAdd", step("Relu", x), rest, outputs=node.outputs[0])


def _can_write_out_stft(node: Node) -> bool:
    x, window, y = first_input(node), (*node.inputs, None)[1], node.outputs[0]
    op: Any = bound(node)
    count = op.frame_length * x.shape[-1] * math.prod(y.shape[2:])
    is_known = window is None or is_constant(window)
    return is_known and 0 not in y.shape and not any(x.dynamic) and count <= _MOST_FILTERS


def _stft(graph: Graph, node: Node, step: Step) -> None:
    # a convolution: for each bin, filters with the waves that the real and imaginary part count
    op: Any = bound(node)
    x, window, y = first_input(node), (*node.inputs, None)[1], node.outputs[0]
    (batch, length, parts), bins, count = x.shape, y.shape[2], op.frame_length
    turns = np.outer(np.arange(count), np.arange(bins)) % count
    waves = np.exp(turns * (-2j * np.pi / count))
    if window is not None:
        waves *= window.values()[:, None]
    of_parts = np.stack([waves, 1j * waves], axis=1)[:, :parts]
    filters = np.stack([of_parts.real, of_parts.imag], axis=-1)
    weight = filters.reshape(1, count, parts, bins * 2).astype(x.dtype.storage)
    line = step("Reshape", x, spec=Spec(x.dtype, (batch, 1, length, parts)))
    sums = step(
        "Conv2d",
        line,
        static(graph, f"{node.name}.weight", weight),
        stride=(1, op.frame_step),
        pad_amount=[(0, 0), (0, 0)],
    )
    step("Reshape", sums, outputs=y)


def _has_fixed_shapes(node: Node) -> bool:
    return not any(any(tensor.dynamic) for tensor in (first_input(node), *node.outputs))


# Conditions for nodes that may have integers or bools, and for nodes whose inputs are all floats.
_OF_SOME: Mapping[str, Callable[[Node], bool]] = {
    **dict.fromkeys((*_ON_INTEGERS, *_EXTREMES), lambda node: integers_in(node) is not None),
    "ElementWiseFloorDiv": divides_integers,
    "ElementWiseFmod": lambda node: is_any_float(first_input(node)) or divides_integers(node),
    "ElementWiseMod": divides_integers,
    "Pad": _adds_blocks,
    "RotaryEmbedding": rotates_known_sizes,
}
_OF_FLOATS: Mapping[str, Callable[[Node], bool]] = {
    **dict.fromkeys(("Col2Im", "GroupNorm", "PoolMax3d"), _has_fixed_shapes),
    "ElementWiseSoftplus": _is_plain_softplus,
    "Gru": can_write_out_gru,
    "IsNan": lambda _: True,
    **dict.fromkeys(("ReduceProd", "ReduceSumSquare"), _can_write_out_reduction),
    "Stft": _can_write_out_stft,
}
_WRITERS: Mapping[str, Callable[[Graph, Node, Step], None]] = {
    **dict.fromkeys(_ON_INTEGERS, _on_integers),
    **dict.fromkeys(_EXTREMES, _extreme),
    "Col2Im": _col_2_im,
    "ElementWiseFloorDiv": write_out_floor_div,
    "ElementWiseFmod": write_out_fmod,
    "ElementWiseMod": write_out_mod,
    "ElementWiseSoftplus": _softplus,
    "GroupNorm": _group_norm,
    "Gru": write_out_gru,
    "IsNan": _is_nan,
    "Pad": _pad,
    "PoolMax3d": _pool_max_3d,
    "ReduceProd": _reduce_prod,
    "ReduceSumSquare": _reduce_sum_square,
    "RotaryEmbedding": write_out_rotary_embedding,
    "Stft": _stft,
}
