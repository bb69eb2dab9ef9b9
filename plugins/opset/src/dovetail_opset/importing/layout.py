"""Emission of channels-last ops, (n, h, w, c), for channels-first tensors, (n, c, ...).

Each of these ops is between a transpose there and one back; a pass cancels those that meet. One
spatial dimension becomes two, the first of size 1.
"""

from __future__ import annotations

from dovetail.ir import Shape, Spec, Tensor
from dovetail_opset.importing.context import ImportContext
from dovetail_opset.perms import to_first, to_last


def reshaped(op: ImportContext, suffix: str, x: Tensor, shape: Shape) -> Tensor:
    """Return a tensor in another shape, as a step; the tensor itself if it has that shape."""
    if x.shape == shape:
        return x
    return op.step(suffix, "Reshape", [x], spec=Spec(x.dtype, shape))


def check_spatial(op: ImportContext, rank: int) -> None:
    """Raise unless an input has one to three spatial dimensions.

    Raises:
        FrontendError: It has no spatial dimension.
        UnsupportedOpError: It has four or more.
    """
    if rank < 3:
        raise op.invalid(f"input must have rank 3 or more, got rank {rank}")
    if rank > 5:
        raise op.unsupported(
            f"unsupported {rank - 2} spatial dimensions; expected one to three",
            hint="rewrite it with three-dimensional operators",
        )


def spatial_input(op: ImportContext) -> Tensor:
    """Return input 0, (n, c, ...) with one to three spatial dimensions, as (n, ..., c)."""
    rank = len(op.spec(0).shape)
    check_spatial(op, rank)
    x = op.arranged(0, to_last(rank))
    if rank > 3:
        return x
    n, width, channels = x.shape
    return reshaped(op, "rows", x, (n, 1, width, channels))


def spatial_output(op: ImportContext, y: Tensor, rank: int) -> Tensor:
    """Emit (n, ..., c) as the node's output of this rank."""
    name = op.node.outputs[0]
    if rank == 3:
        n, _, width, channels = y.shape
        y = reshaped(op, "row", y, (n, width, channels))
    y.source, y.source_perm = name, to_last(rank)
    return op.emit("Transpose", [y], perm=to_first(rank))


def aligned(op: ImportContext, a: Tensor, b: Tensor, axis: int | None = None) -> Tensor:
    """Return a tensor reshaped so that it broadcasts to another one from an axis on.

    Args:
        op: The node.
        a: The tensor to whose shape the other one broadcasts.
        b: The other one.
        axis: Axis of `a` that the first one of `b` meets; by default the last axes meet.

    Raises:
        FrontendError: The axis does not fit the shapes.
    """
    room = len(a.shape) - len(b.shape)
    first = room if axis is None else axis
    first += len(a.shape) if first < 0 else 0
    if not 0 <= first <= room:
        raise op.invalid(f"input {b.shape} cannot be broadcast from axis {first} of {a.shape}")
    return reshaped(op, "aligned", b, (*b.shape, *(1,) * (room - first)))
