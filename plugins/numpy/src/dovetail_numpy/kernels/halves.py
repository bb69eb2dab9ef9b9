"""Rounding of float32 numbers to those of float16, in float32.

NumPy's conversion there and back takes three times as long.
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
