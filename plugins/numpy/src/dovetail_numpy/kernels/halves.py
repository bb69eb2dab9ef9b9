"""Rounding of float32 numbers to those of float16, and conversions between the two.

NumPy's conversions take three to five times as long.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_numpy.kernels._calls import blocks

BLOCK = 1 << 15  # elements that stay in a cache while they are rounded

# Bits of float32, which has 23 bits of mantissa where float16 has 10.
_EXPONENT = np.uint32(0x7F800000)
_LEAST, _MOST = (np.float32(2.0**e).view(np.uint32) for e in (-14, 16))
_UNIT = np.uint32((23 - 10) << 23)
_HALF = np.uint32(1 << 22)
_FAR = np.float32(2.0**112)  # float16's infinity as float32's
_LOST = 23 - 10
_SIGN, _MAGNITUDE = np.int32(0x8000), np.int32(0x7FFF)
_KEPT = np.int32(-(1 << 31) | 0x7FFF << _LOST)  # sign and magnitude of float16 in an int32
_INFINITY = 0x7C00


def round_to_half(x: Array, out: Array, room: Array) -> None:
    """Round numbers to float16: to nearest, halves to even, infinite from 65520.

    Args:
        x: float32, flat.
        out: Receives the numbers; may be x.
        room: float32, flat, BLOCK elements or as many as x has; overwritten.
    """
    for part in blocks(x.size, BLOCK):
        values, found = x[part], out[part]
        # 1.5 times a power of two whose float32 has the step that float16 has near a value: the
        # sum is rounded to that step. Numbers below 2^-14 have the step of 2^-14.
        large = room[: values.size]
        bits = large.view(np.uint32)
        np.bitwise_and(values.view(np.uint32), _EXPONENT, out=bits)
        np.clip(bits, _LEAST, _MOST, out=bits)
        np.add(bits, _UNIT + _HALF, out=bits)
        np.add(values, large, out=found)
        np.subtract(found, large, out=found)
        np.multiply(found, _FAR, out=found)
        np.multiply(found, 1 / _FAR, out=found)


def from_halves(x: Array, out: Array) -> None:
    """Convert float16 numbers to float32.

    Args:
        x: float16, flat.
        out: float32, flat; receives the numbers.
    """
    for part in blocks(x.size, BLOCK):
        halves, values = x[part], out[part]
        if _is_finite(halves):
            # exponents of float16 read as those of float32, which are counted from 112 further down
            bits = values.view(np.int32)
            np.left_shift(halves.view(np.int16), _LOST, out=bits, dtype=np.int32)
            np.bitwise_and(bits, _KEPT, out=bits)
            np.multiply(values, _FAR, out=values)
        else:
            np.copyto(values, halves)


def to_halves(x: Array, out: Array, room: Array) -> None:
    """Convert float32 numbers to float16; rounded as by `round_to_half`.

    Args:
        x: float32, flat.
        out: float16, flat; receives the numbers.
        room: float32, flat, twice BLOCK elements or as many as x has; overwritten.
    """
    for part in blocks(x.size, BLOCK):
        values = x[part]
        rounded, spare = room[: 2 * values.size].reshape(2, -1)
        round_to_half(values, rounded, spare)
        np.multiply(rounded, 1 / _FAR, out=rounded)
        bits, signs = rounded.view(np.int32), spare.view(np.int32)
        np.right_shift(values.view(np.int32), 16, out=signs)  # of -0, too
        np.bitwise_and(signs, _SIGN, out=signs)
        np.right_shift(bits, _LOST, out=bits)
        np.bitwise_and(bits, _MAGNITUDE, out=bits)
        np.bitwise_or(bits, signs, out=bits)
        np.copyto(out[part].view(np.uint16), bits, casting="unsafe")


def _is_finite(halves: Array) -> bool:
    # as unsigned numbers negative ones are above all others, as signed ones below
    positive, negative = halves.view(np.int16), halves.view(np.uint16)
    return bool(
        np.maximum.reduce(positive) < _INFINITY and np.maximum.reduce(negative) < _INFINITY | 0x8000
    )
