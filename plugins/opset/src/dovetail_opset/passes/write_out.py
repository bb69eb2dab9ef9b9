"""Ops that some backends lack, written out in ops that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dovetail.ir import Graph, Node, Spec, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.build import add, static
from dovetail_opset.passes._divisions import (
    divides_integers,
    write_out_floor_div,
    write_out_fmod,
    write_out_mod,
)
from dovetail_opset.passes._gru import Step, can_write_out_gru, write_out_gru
from dovetail_opset.passes._integers import (
    EXTREMES,
    ON_INTEGERS,
    can_write_out_pad,
    integers_in,
    write_out_extreme,
    write_out_on_integers,
    write_out_pad,
)
from dovetail_opset.passes._rewrite import bound, first_input, is_any_float, is_constant
from dovetail_opset.passes._rotary import rotates_known_sizes, write_out_rotary_embedding

# Beyond this, a float32 does not distinguish log(1 + exp(x)) from x.
_LARGE = 16.0
# Elements of the filters that a transform becomes: 2,048 samples in a frame need half of them.
_MOST_FILTERS = 1 << 23


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
    for tap, index in enumerate(np.ndindex(window.size)):
        at = tuple(i * dilation for i, dilation in zip(index, window.dilation, strict=True))
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
    **dict.fromkeys((*ON_INTEGERS, *EXTREMES), lambda node: integers_in(node) is not None),
    "ElementWiseFloorDiv": divides_integers,
    "ElementWiseFmod": lambda node: is_any_float(first_input(node)) or divides_integers(node),
    "ElementWiseMod": divides_integers,
    "Pad": can_write_out_pad,
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
    **dict.fromkeys(ON_INTEGERS, write_out_on_integers),
    **dict.fromkeys(EXTREMES, write_out_extreme),
    "Col2Im": _col_2_im,
    "ElementWiseFloorDiv": write_out_floor_div,
    "ElementWiseFmod": write_out_fmod,
    "ElementWiseMod": write_out_mod,
    "ElementWiseSoftplus": _softplus,
    "GroupNorm": _group_norm,
    "Gru": write_out_gru,
    "IsNan": _is_nan,
    "Pad": write_out_pad,
    "PoolMax3d": _pool_max_3d,
    "ReduceProd": _reduce_prod,
    "ReduceSumSquare": _reduce_sum_square,
    "RotaryEmbedding": write_out_rotary_embedding,
    "Stft": _stft,
}
