"""The order of blocks: by channel, as in 1.0.0, or along the tensor's axes."""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import Shape, Tensor
from dovetail_opset.perms import from_source, to_source
from dovetail_quantizers.files.form import Form, TensorEncoding

N = TypeVar("N", np.float64, np.int64)


def channel_axis_of(block_axis: int) -> int:
    """Return the output channels' axis of a weight with blocks along its input axis."""
    return 1 if block_axis == 0 else 0


def block_axis_of(channel_axis: int) -> int:
    """Return the axis of the inputs of a weight with its output channels at `channel_axis`."""
    return 1 if channel_axis == 0 else channel_axis - 1


def flat(entry: TensorEncoding) -> TensorEncoding | None:
    """Return an entry with its numbers channel by channel, as in 1.0.0.

    None if blocks differ along axes other than the channels' and the blocked one.
    """
    axis, scales, offsets = entry.axis, entry.scales, entry.offsets
    if not entry.form.is_blocked or axis is None or scales is None or offsets is None:
        return entry
    if entry.block_scales is not None:
        factors = _by_channel(entry.block_scales, axis)
        return (
            factors
            if factors is None
            else dataclasses.replace(
                entry,
                axis=None,
                scales=scales.ravel(),
                offsets=offsets.ravel(),
                block_scales=factors,
            )
        )
    rows, whole = _by_channel(scales, axis), _by_channel(offsets, axis)
    if rows is None or whole is None:
        return None
    return dataclasses.replace(entry, axis=None, scales=rows.ravel(), offsets=whole.ravel())


def placed(entry: TensorEncoding, tensor: Tensor, axis: int | None) -> TensorEncoding:
    """Return an entry with its axis, and its numbers along the axes of the user's model.

    Args:
        entry: The entry of a file.
        tensor: The tensor of the graph.
        axis: Axis of its output channels in its layout, if the file does not define it.

    Raises:
        QuantizationError: The numbers do not match the shape, or the axis is unknown.
    """
    if entry.scales is None or entry.form is Form.PER_TENSOR:
        return entry
    shape = tuple(tensor.shape[i] for i in to_source(tensor))
    if entry.axis is None:
        if axis is None:
            raise _mismatch(
                entry,
                f"has {entry.scales.size} scales, and neither the file nor its use in the model "
                "says along which axis",
            )
        channel = from_source(tensor)[axis]
        if entry.form is Form.PER_CHANNEL:
            entry = dataclasses.replace(entry, axis=channel)
        else:
            entry = _placed_blocks(entry, shape, channel)
    _check_fit(entry, shape)
    return entry


def _placed_blocks(entry: TensorEncoding, shape: Shape, channel: int) -> TensorEncoding:
    axis, size = block_axis_of(channel), entry.block_size or 1
    if max(axis, channel) >= len(shape) or shape[axis] % size:
        raise _mismatch(
            entry, f"has blocks of {size}, which do not divide a tensor of shape {shape}"
        )
    channels, blocks = shape[channel], shape[axis] // size
    numbers = entry.scales if entry.form is Form.PER_BLOCK else entry.block_scales
    if numbers is None or numbers.size != channels * blocks:
        count = 0 if numbers is None else numbers.size
        wanted = f"{channels} x {blocks}"
        raise _mismatch(entry, f"has {count} blocks, where shape {shape} needs {wanted}")
    full = tuple(blocks if i == axis else count for i, count in enumerate(shape))
    if entry.form is Form.PER_BLOCK:
        return dataclasses.replace(
            entry,
            axis=axis,
            scales=_along_axes(entry.scales, full, channel, axis),
            offsets=_along_axes(entry.offsets, full, channel, axis),
        )
    if entry.scales is None or entry.offsets is None or entry.scales.size != channels:
        raise _mismatch(entry, f"has other than {channels} scales for shape {shape}")
    ones = tuple(channels if i == channel else 1 for i in range(len(shape)))
    return dataclasses.replace(
        entry,
        axis=axis,
        scales=entry.scales.reshape(ones),
        offsets=entry.offsets.reshape(ones),
        block_scales=_along_axes(entry.block_scales, full, channel, axis),
    )


def _along_axes(
    array: NDArray[N] | None, full: Shape, channel: int, axis: int
) -> NDArray[N] | None:
    """Return (channels * blocks,) or (channels, blocks) numbers in the shape `full`."""
    if array is None:
        return None
    rows = array.reshape(full[channel], full[axis])
    turned = rows if channel < axis else rows.T
    spread = tuple(n if i in (channel, axis) else 1 for i, n in enumerate(full))
    return np.broadcast_to(turned.reshape(spread), full)


def _check_fit(entry: TensorEncoding, shape: Shape) -> None:
    axis = entry.axis or 0
    if axis >= len(shape):
        raise _mismatch(entry, f"has an axis {axis}, which a tensor of shape {shape} lacks")
    if entry.form is Form.PER_CHANNEL:
        count = 0 if entry.scales is None else entry.scales.size
        if count != shape[axis]:
            hint = "versions before 1.0.0 list the scales of blocks like those of channels"
            text = f"has {count} scales for the {shape[axis]} channels of axis {axis}"
            raise _mismatch(entry, text, hint if count % max(shape[axis], 1) == 0 else "")
        return
    numbers = entry.scales if entry.form is Form.PER_BLOCK else entry.block_scales
    size = entry.block_size or 1
    wanted = tuple(n // size if i == axis else n for i, n in enumerate(shape))
    found = () if numbers is None else numbers.shape
    if shape[axis] % size or found != wanted or not math.prod(wanted):
        text = f"has numbers of shape {found} for blocks of {size} along axis {axis} of {shape}"
        raise _mismatch(entry, text)


def _by_channel(array: NDArray[N], axis: int) -> NDArray[N] | None:
    """Return numbers as (channels, blocks); None if they differ along other axes."""
    moved = np.moveaxis(array, (channel_axis_of(axis), axis), (0, 1))
    rows = moved.reshape(*moved.shape[:2], -1)
    return rows[:, :, 0] if np.all(rows == rows[:, :, :1]) else None


def _mismatch(entry: TensorEncoding, message: str, hint: str = "") -> QuantizationError:
    return QuantizationError(f"the encoding {message}", where=f"tensor '{entry.name}'", hint=hint)
