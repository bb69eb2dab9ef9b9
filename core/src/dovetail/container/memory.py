"""Aligned memory: what kernels and arenas want under their arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # a cache line, and the widest vector register


def aligned_empty(nbytes: int, alignment: int = ALIGNMENT) -> NDArray[np.uint8]:
    """Return writable memory without a set content.

    Args:
        nbytes: Size in bytes.
        alignment: Address of the first byte is a multiple of this power of two, in bytes.

    Returns:
        uint8, shape (nbytes,).

    Raises:
        ValueError: The size is negative, or the alignment no power of two.
    """
    if nbytes < 0:
        raise ValueError(f"{nbytes} bytes cannot be had")
    if alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"alignment {alignment} is no power of two")
    room = np.empty(nbytes + alignment - 1, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + nbytes]
