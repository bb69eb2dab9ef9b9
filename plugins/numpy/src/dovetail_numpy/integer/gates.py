"""Gates of recurrent layers on integers: sums of products, tables, and the grids in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail_numpy.integer.grid import real_of, stored_of
from dovetail_numpy.integer.norms import single
from dovetail_numpy.integer.products import byte_shifts, part
from dovetail_numpy.integer.rescaling import Floats, Rescale, grid_of, scales

# The arguments of the functions of gates, and their results.
ARGUMENT = Spec(DType.SFIXED_POINT_16, (), ScaleOffset(2.0**-12))
ONE = 1 << 15
UNIT = 1.0 / ONE

Sums = list[tuple[Array, Floats]]


@lru_cache(maxsize=16)
def unit_table(function: Callable[[Array], Array], step: float, low: int, count: int) -> Array:
    """Return `rint(2**15 * function(step * l))` for `count` levels l from `low`, int64."""
    levels = np.arange(low, low + count, dtype=np.float64)
    table = np.asarray(np.rint(function(levels * step) * ONE), np.int64)
    table.flags.writeable = False
    return table


def unit(function: Callable[[Array], Array], stored: Array, spec: Spec) -> Array:
    """Return a function of stored integers as integers over 2**15."""
    step, zero, _ = grid_of(spec)
    low, high = spec.dtype.stored_range()
    table = unit_table(function, step, low - zero, high - low + 1)
    return np.asarray(table[stored.astype(np.int64) - low])


def rounded(steps: Array, spec: Spec) -> Array:
    """Return `clip(rint(steps + z))`, stored."""
    _, zero, limits = grid_of(spec)
    return np.asarray(np.clip(np.rint(steps + zero), *limits), spec.dtype.storage)


def requantized(stored: Array, source: Spec, target: Spec) -> Array:
    """Return the values of a tensor on another grid."""
    if (source.dtype, source.encoding) == (target.dtype, target.encoding):
        return stored
    return stored_of(real_of(stored, source), target)


def clipped(stored: Array, spec: Spec, threshold: float) -> Array:
    """Return stored integers of real values within a threshold; one of 0 does not clip."""
    step, zero, limits = grid_of(spec)
    bound = np.rint(single(threshold) / step)
    if threshold == 0 or bound > limits[1] - limits[0]:
        return stored
    return np.asarray(np.clip(stored, zero - bound, zero + bound), stored.dtype)


class Matrix:
    """Weights (units, k) that multiply vectors on one grid, for sums on another."""

    def __init__(self, vectors: Spec, stored: Array, weights: Spec, target: Spec) -> None:
        self._vectors = vectors
        self.products = scales(vectors) * scales(weights).reshape(-1)
        self._passes = [
            (
                narrow,
                part(stored, weights, wide).T,
                multipliers(self.products, target) * np.float32(2 ** (wide + narrow)),
            )
            for wide, narrow in itertools.product(byte_shifts(weights), byte_shifts(vectors))
        ]

    def sums(self, stored: Array) -> Sums:
        """Return the exact sums of vectors (..., k), with their multipliers, in order."""
        parts = {s: part(stored, self._vectors, s) for s in byte_shifts(self._vectors)}
        return [(parts[narrow] @ weights, m) for narrow, weights, m in self._passes]


def multipliers(products: Array, target: Spec) -> Floats:
    """Return scales of products in steps of a grid."""
    return np.asarray(products / grid_of(target)[0], np.float32)


def offsets(bias: Array | float, target: Spec) -> Floats:
    """Return a real bias in steps of a grid."""
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(bias) / grid_of(target)[0], np.float32)


def add_up(sums: Sums, bias: Array | float, target: Spec) -> Array:
    """Return sums plus a real bias, which comes after the first of them, on a grid."""
    _, zero, limits = grid_of(target)
    (acc, multiplier), *further = sums
    rescale = Rescale(multiplier, offsets(bias, target), zero, limits)
    return rescale.apply(acc, target, *further)
