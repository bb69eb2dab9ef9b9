"""Pooling.

The library differs in two points. The maximum of nothing but minus infinity is the lowest finite
number. And maxima ignore NaN, so a step looks for NaN in its source after each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from dovetail.ir import Node, Scalar, Shape, Tensor
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Layout, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Arg, PoolingAlgorithm
from dovetail_onednn.attributes import PostOp
from dovetail_onednn.bounds import has_no_nan
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import OneDnnLayout, aligned, images, narrow_layout, type_of
from dovetail_onednn.maximum import MaximumWithNan, MaximumWithZeros
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.post_ops import Chain, can_fuse, chain_of
from dovetail_onednn.primitives import Described, PrimitiveDesc
from dovetail_onednn.steps import from_one_to_one
from dovetail_onednn.windows import Pooling

# Ops whose results are not negative if their inputs are not.
_SIGN_KEEPING = frozenset(("Concat", "PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d"))


def pooled(
    call: KernelCall,
    pooling: Pooling,
    before: tuple[PostOp, ...] = (),
    layout: Layout | None = None,
) -> Step | None:
    """Return the step of a call whose head is a pooling.

    Args:
        call: All tensors are float32 and not empty.
        pooling: Its pooling.
        before: Functions of the result, for calls without fused nodes.
        layout: Layout of the source; that of the result is similar.
    """
    rank, source, target = len(pooling.target), images(pooling.source), images(pooling.target)
    kind = type_of(layout)
    descs = source.of_type(kind), target.of_type(kind)
    if isinstance(layout, OneDnnLayout):
        descs = layout.desc, MemoryDesc.any(_channels_first(pooling.target), kind)
    chain = chain_of(call, lambda shape: images(aligned(shape, rank)), kind)
    if before:
        chain = Chain(before, ())
    with PrimitiveDesc(pooling.described(*descs, chain.ops)) as desc:
        step = from_one_to_one(call, desc, source, target, chain=chain)
        if step is None:
            return None if layout is None else pooled(call, pooling, before)
        if pooling.algorithm is not PoolingAlgorithm.MAXIMUM or has_no_nan(call, 0):
            return step
        concrete = desc.desc(Arg.SOURCE), desc.desc(Arg.DESTINATION)
    values = step.reads[0], step.writes[0]
    windows = Described(pooling.described(*concrete), desc.described.threads)
    search = NanSearch.of(values[0].nbytes, kind)
    return replace(step, bind=MaximumWithNan(step.bind, values, search, windows))


def pool_avg(call: KernelCall) -> Step | None:
    """Run PoolAvg2d, PoolAvg3d and fused nodes as one primitive; see `Kernel.make`."""
    if not is_float32(call):
        return None
    if call.op.count_pad_for_edges:
        pooling = Pooling.of(call.head, PoolingAlgorithm.AVERAGE_WITH_PADDING)
        return pooled(call, pooling, layout=narrow_layout(call))
    pooling = Pooling.of(call.head, PoolingAlgorithm.AVERAGE)
    # the mean of no elements is 0 in the op set, but not in the library
    if pooling.has_empty_windows:
        return None
    return pooled(call, pooling, layout=narrow_layout(call))


def can_fuse_after_maximum(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether PoolMax can run a node too: not if 0 takes part in maxima."""
    return not any(zero_edges(group[0])) and can_fuse(group, node)


def pool_max(call: KernelCall) -> Step | None:
    """Run PoolMax2d, PoolMax3d and fused nodes as one primitive; see `Kernel.make`.

    The op set's padding holds 0, the library ignores padding. So after the primitive, 0 is compared
    with the results of windows that extend into the padding: the first and last along an axis.
    """
    if not is_float32(call):
        return None
    pooling = Pooling.of(call.head, PoolingAlgorithm.MAXIMUM)
    edges = list(zero_edges(call.head))
    if edges and not pooling.has_empty_windows and _reads_no_negative(call):
        edges = []  # 0 changes no maximum
    step = pooled(call, pooling, layout=None if edges else call.layout(0))
    if step is None or not edges:
        return step
    return replace(step, bind=MaximumWithZeros(step.bind, step.writes[0], edges))


def _channels_first(shape: Shape) -> Shape:
    batch, *spatial, channels = shape
    return (batch, channels, *spatial)


def reads_blocks(node: Node, source: Node) -> bool:
    """Return whether a node is pooling that reads the result of another in any layout.

    It does not if 0 takes part in maxima that it may change.
    """
    pads = node.params.get("pad_amount")
    is_padded = isinstance(pads, Tensor) and bool(pads.values().any())
    is_maximum = node.op_type in ("PoolMax2d", "PoolMax3d")
    return is_maximum and (not is_padded or is_never_negative(source))


def is_never_negative(node: Node) -> bool:
    """Return whether all results of a node are 0 or more, or NaN."""
    low = node.params.get("min_value")
    is_clipped = isinstance(low, Scalar) and float(low.value) >= 0
    return node.op_type in ("Relu", "Relu6", "Sigmoid") or (
        node.op_type == "ReluMinMax" and is_clipped
    )


def _reads_no_negative(call: KernelCall) -> bool:
    """Return whether the input of the head is always 0 or more, or NaN."""
    waiting, seen = list(call.head.node.inputs), set[Node]()
    while waiting:
        tensor = waiting.pop()
        node = None if tensor is None else call.writer(tensor)
        if node is None:
            return False
        if node in seen or is_never_negative(node):
            continue
        if node.op_type not in _SIGN_KEEPING:
            return False
        seen.add(node)
        waiting += node.inputs
    return True


def zero_edges(view: NodeView) -> Iterator[tuple[int, slice]]:
    """Yield the parts of the result in whose maxima 0 takes part: an axis and a slice of it."""
    op: Any = view.op
    pooling = Pooling.of(view, PoolingAlgorithm.MAXIMUM)
    after = [int(pads[1]) for pads in op.pad_amount]  # without what CEIL adds
    for i, windows in enumerate(pooling.windows()):
        size = pooling.source[1 + i]
        first = sum(start < 0 for start, _ in windows)
        # the maximum of a window wholly beyond the padding is 0 too
        last = sum(end > size and (after[i] > 0 or start >= size) for start, end in windows)
        if first:
            yield 1 + i, slice(first)
        if last:
            yield 1 + i, slice(len(windows) - last, None)
