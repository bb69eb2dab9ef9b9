"""Extremes and sums of the rows of a matrix."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail_numpy.kernels._calls import Call, ufunc

# Returns the index of each row's maximum or minimum, or of its first NaN.
Find = Callable[..., Any]
# Rows up to this length are added by einsum, which takes a fifth of the time of np.add.reduce for
# 12 elements, and a third for 64 to 3,000, with errors of a few roundings. Longer ones are added in
# pairs.
_SHORT = 4096
# Extremes of rows of so many elements are found by their index. 8,400 rows of 300 took 1009 us by
# np.maximum.reduce and 445 by index, but of 17 246 and 223; one row of 1,000 took 0.9 and 2.3.
_INDEXED = range(64, 4096)
_LEAST_ROWS = 8


def are_indexed(height: int, width: int) -> bool:
    """Return whether `extremes_by_index` is the fastest way for rows of this number and length."""
    return width in _INDEXED and height >= _LEAST_ROWS


def extremes_by_index(find: Find, rows: Array, indices: Array, out: Array) -> list[Call]:
    """Return the calls that find the maximum or minimum of each row by its index.

    Args:
        find: Which of the two.
        rows: (n, width), C-contiguous.
        indices: (n,), intp; overwritten.
        out: (n,).
    """
    height, width = rows.shape
    return [
        functools.partial(find, rows, 1, indices),
        ufunc(np.add, indices, np.arange(height) * width, indices),
        functools.partial(rows.reshape(-1).take, indices, None, out, "wrap"),
    ]


def added(rows: Array, out: Array) -> Call:
    """Return the call that adds the elements of each row, (n, width), into (n,)."""
    if rows.shape[1] <= _SHORT:
        return functools.partial(np.einsum, "ij->i", rows, out=out)
    return functools.partial(np.add.reduce, rows, 1, None, out)
