"""Transposition of large constants by blocks, which fit the cache while NumPy's copy does not."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, Shape

# Rows and columns of a block; 2048 x 2048 float32 took 28 ms instead of 85 (64; 40 with 128).
_BLOCK = 64


def transposed_copy(values: Array, perm: Shape) -> Array:
    """Return `values` with its axes in another order, C-contiguous.

    Args:
        values: Any shape.
        perm: The order of the axes.
    """
    moved = [axis for axis in perm if values.shape[axis] != 1]
    split = moved.index(min(moved)) if moved else 0
    rotated = moved[split:] + moved[:split]
    if split == 0 or rotated != sorted(rotated):
        return np.array(values.transpose(perm), order="C")
    # the last axes come first: the transpose of a matrix
    columns = math.prod(values.shape[axis] for axis in moved[:split])
    matrix = values.reshape(-1, columns)
    result = np.empty(matrix.shape[::-1], values.dtype)
    for i in range(0, matrix.shape[0], _BLOCK):
        rows = slice(i, i + _BLOCK)
        for j in range(0, columns, _BLOCK):
            result[j : j + _BLOCK, rows] = matrix[rows, j : j + _BLOCK].T
    return result.reshape([values.shape[axis] for axis in perm])
