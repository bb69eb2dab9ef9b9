"""Moves of blocks between space, batch and channels."""

from __future__ import annotations

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators.convolution import onnx_pads
from dovetail_opset.ops.blocks import BlockMode


@exports("DepthToSpace")
def depth_to_space(e: NodeExport) -> None:
    """DepthToSpace of square blocks, else Reshape and Transpose."""
    rows, columns = e.op.block
    if rows == columns:
        mode = e.op.mode.name
        e.put_first(e.add("DepthToSpace", [e.channels_first()], blocksize=rows, mode=mode))
        return
    n, h, w, depth = e.spec(0).shape
    c = depth // (rows * columns)
    if e.op.mode is BlockMode.DCR:
        _rearranged(e, (n, h, w, rows, columns, c), (0, 1, 3, 2, 4, 5))
    else:
        _rearranged(e, (n, h, w, c, rows, columns), (0, 1, 4, 2, 5, 3))


@exports("SpaceToDepth")
def space_to_depth(e: NodeExport) -> None:
    """Write SpaceToDepth of square blocks whose offsets come first, else Reshape and Transpose."""
    rows, columns = e.op.block
    if rows == columns and e.op.mode is BlockMode.DCR:
        e.put_first(e.add("SpaceToDepth", [e.channels_first()], blocksize=rows))
        return
    n, height, width, c = e.spec(0).shape
    last = (2, 4, 5) if e.op.mode is BlockMode.DCR else (5, 2, 4)
    shape = (n, height // rows, rows, width // columns, columns, c)
    _rearranged(e, shape, (0, 1, 3, *last))


@exports("BatchToSpace")
def batch_to_space(e: NodeExport) -> None:
    """Reshape and Transpose, then Slice."""
    batch, h, w, c = e.spec(0).shape
    rows, columns = e.op.block
    n = batch // (rows * columns)
    parts = e.flat(0, (rows, columns, n, h, w, c))
    spread = e.add("Transpose", [parts], perm=[2, 3, 0, 4, 1, 5])
    whole = e.reshape(spread, (n, h * rows, w * columns, c))
    (top, _), (left, _) = ([int(v) for v in pair] for pair in e.op.crops)
    _, height, width, _ = e.out.shape
    bounds = [e.integers(v) for v in ((top, left), (top + height, left + width), (1, 2))]
    e.put(e.add("Slice", [whole, *bounds]))


@exports("SpaceToBatch")
def space_to_batch(e: NodeExport) -> None:
    """Pad, then Reshape and Transpose."""
    n, height, width, c = e.op.padded(e.spec(0).shape)
    rows, columns = e.op.block
    pairs = [(0, 0), *((int(b), int(a)) for b, a in e.op.pad_amount), (0, 0)]
    x = e.input(0)
    padded = e.add("Pad", [x, e.integers(onnx_pads(pairs)), e.constant(0, x)])
    parts = e.reshape(padded, (n, height // rows, rows, width // columns, columns, c))
    turned = e.add("Transpose", [parts], perm=[2, 4, 0, 1, 3, 5])
    e.put(e.reshape(turned, e.out.shape))


@exports("ChannelShuffle")
def channel_shuffle(e: NodeExport) -> None:
    """Reshape, Transpose and Reshape, in the layout of the input."""
    order, shape = e.layout(0), e.spec(0).shape
    op, _ = e.in_order(order)
    extents = [shape[axis] for axis in order]
    at, groups = op.axis, op.num_groups
    split = [*extents[:at], groups, extents[at] // groups, *extents[at + 1 :]]
    perm = list(range(len(split)))
    perm[at], perm[at + 1] = at + 1, at
    turned = e.add("Transpose", [e.reshape(e.input(0, order), split)], perm=perm)
    e.put(e.reshape(turned, extents), order)


def _rearranged(e: NodeExport, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    turned = e.add("Transpose", [e.flat(0, shape)], perm=list(perm))
    e.put(e.reshape(turned, e.out.shape))
