"""Copies of input channels, for weights that are sums of several terms; see `Integers.parts`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail_onednn._api import DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.quantized.stages import Stages

MOST_PARTS = 4  # terms of an unsigned byte where the library multiplies 7 bits
SIGN = 128  # from a signed byte to an unsigned one
_WORD = 4  # bytes that are copied together, in a third of the time
_MOST = 128  # sum of two weights of one sign whose products with bytes fit 16 bits together


def without_saturation(levels: Array) -> Array | None:
    """Return weights of which code for AVX2 adds the products with bytes exactly, two at a time.

    Where two neighboring channels have too large weights of one sign, the excess moves from the
    first one to a copy of that channel. Copies of every other channel follow all channels.

    Args:
        levels: Signed bytes (..., channels, units).

    Returns:
        int8 (..., channels, units) without copies, or (..., channels * 3 / 2, units). None if an
        excess saturates again, or the number of channels is odd.
    """
    if levels.shape[-2] % 2:
        return None
    kept = levels.astype(np.int16)
    excess = _excess(kept)
    if not excess.any():
        return np.asarray(levels, np.int8)
    kept[..., ::2, :] -= excess
    pairs = excess.shape[-2] // 2 * 2
    if _excess(excess[..., :pairs, :]).any():
        return None
    return np.concatenate([kept, excess], -2).astype(np.int8)


def _excess(levels: Array) -> Array:
    """Return by how much the sum of two neighbors of one sign is too large; 0 where it is not."""
    first, second = levels[..., ::2, :], levels[..., 1::2, :]
    above = np.maximum(first, 0) + np.maximum(second, 0) - _MOST
    below = np.minimum(first, 0) + np.minimum(second, 0) + _MOST
    return np.asarray(np.maximum(above, 0) + np.minimum(below, 0))


def copy_channels(
    stages: Stages,
    data: Argument,
    room: Argument,
    counts: tuple[int, int],
    is_shifted: bool,
    steps: Sequence[int],
) -> None:
    """Add copies of the channels of each group, one after the other.

    Args:
        stages: The step.
        data: The value of the data.
        room: Where they are copied to.
        counts: Numbers of groups and of channels in each.
        is_shifted: Whether signed bytes become unsigned.
        steps: For each copy, the distance of the channels that it has: 1 for all.
    """
    (groups, channels), width = counts, room.desc.dims[1]
    rows, kind = math.prod(room.desc.dims) // width, DataType.S8 if is_shifted else room.desc.type
    at = 0
    for step in steps:
        is_even = channels % _WORD == 0 == width // groups % _WORD
        if step == 1 and not is_shifted and is_even:
            stages.move(*_in_words(data, room, (rows, groups, channels // _WORD), at))
            at += channels
            continue
        shape = (rows, groups, channels // step)
        stored = MemoryDesc.strided(shape, (groups * channels, channels, step), kind)
        target = MemoryDesc.strided(shape, (width, width // groups, 1), room.desc.type)
        copy = Argument(target, room.value, at)
        stages.move(Argument(stored, data.value), copy, -SIGN if is_shifted else 0)
        at += channels // step


def _in_words(
    data: Argument, room: Argument, shape: tuple[int, int, int], at: int
) -> tuple[Argument, Argument]:
    """Return source and target of a copy of all channels as words of four."""
    _, groups, words = shape
    width = room.desc.dims[1] // _WORD
    stored = MemoryDesc.strided(shape, (groups * words, words, 1), DataType.S32)
    target = MemoryDesc.strided(shape, (width, width // groups, 1), DataType.S32)
    return Argument(stored, data.value), Argument(target, room.value, at)
