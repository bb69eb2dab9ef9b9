"""Aligned memory for the arrays of kernels and arenas."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array

ALIGNMENT = 64  # a cache line, and the widest vector register


def machine_bytes() -> int | None:
    """Return the bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # such as on Windows
        return None


def aligned_zeros(nbytes: int) -> NDArray[np.uint8]:
    """Return writable memory of zeros, which takes space only as it is written.

    Args:
        nbytes: Size in bytes.

    Returns:
        uint8, shape (nbytes,), aligned as `aligned_empty`.

    Raises:
        ValueError: The size is negative.
    """
    return aligned_empty(nbytes, new=np.zeros)


def aligned_empty(
    nbytes: int,
    alignment: int = ALIGNMENT,
    new: Callable[[int, type[np.uint8]], NDArray[np.uint8]] = np.empty,
) -> NDArray[np.uint8]:
    """Return writable, uninitialized memory.

    Args:
        nbytes: Size in bytes.
        alignment: Power of two; the address of the first byte is a multiple of it.
        new: Allocates the memory.

    Returns:
        uint8, shape (nbytes,).

    Raises:
        ValueError: The size is negative, or the alignment is not a power of two.
    """
    if nbytes < 0:
        raise ValueError(f"size must not be negative, got {nbytes} bytes")
    if alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"alignment must be a power of two, got {alignment}")
    room = new(nbytes + alignment - 1, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + nbytes]


def aligned_copy(array: Array) -> Array:
    """Return a C-contiguous, aligned copy of an array."""
    copy: Array = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return copy


def read_only(array: Array, alignment: int = ALIGNMENT) -> Array:
    """Return a C-contiguous, read-only view of an array, or else of an aligned copy.

    Args:
        array: The array.
        alignment: The address of the first byte must be a multiple of it.
    """
    is_aligned = array.flags.c_contiguous and array.ctypes.data % alignment == 0
    view = array.view() if is_aligned else aligned_copy(array)
    view.flags.writeable = False
    return view
