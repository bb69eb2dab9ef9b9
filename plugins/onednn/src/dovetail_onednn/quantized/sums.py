"""Sums of two tensors of stored bytes in float32, with the definition's bits.

    v = (first*a + second*b) + constant,   q = clip(rint(v))

The definition adds real values in float64. Float32 numbers near the exact ones are searched for
which `q` is the same for all 65,536 pairs of bytes, whether or not the library fuses products with
additions. There are none for one or two of a hundred encodings; then a table of pairs is quicker
than any exact formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from dovetail.ops import NodeView
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import function_name
from dovetail_onednn.quantized.types import TYPES, is_narrow

# Between these ratios of scales, float64 holds the sum of a product and a float32 exactly.
_RATIOS = (2.0**-12, 2.0**8)
_REACH = 3  # units in the last place by which a factor may differ from the exact one
_STARTS = 49  # constants that are compared for each pair of factors
# Shares of the largest term: the farthest constant from the exact one, and more than what all
# roundings, factors and constants can change together.
_FARTHEST, _UNCERTAIN = 2.0**-23, 2.0**-20

Floats = NDArray[np.float64]
Grid = tuple[float, int, tuple[int, int]]


class SumConstants(msgspec.Struct, frozen=True):
    """The numbers of a sum, float32; `second` is negative for a difference."""

    first: float
    second: float
    constant: float
    limits: tuple[int, int]


def sum_constants(view: NodeView) -> SumConstants | None:
    """Return the numbers of an ElementWiseAdd or ElementWiseSubtract; None if there are none."""
    specs = [s for s in (*view.ins, view.outs[0]) if s is not None]
    if not all(s.dtype in TYPES and is_narrow(s) for s in specs):
        return None
    (sa, za, _), (sb, zb, _), target = (grid_of(s) for s in specs)
    first, second = (sa, za, specs[0].dtype.stored_range()), (sb, zb, specs[1].dtype.stored_range())
    is_difference = function_name(view) == "ElementWiseSubtract"
    return _constants(first, second, target, -1 if is_difference else 1)


@lru_cache(maxsize=512)
def _constants(first: Grid, second: Grid, target: Grid, sign: int) -> SumConstants | None:
    (sa, za, _), (sb, zb, _), (step, zero, limits) = first, second, target
    ratios = sa / step, sb / step
    if not all(_RATIOS[0] <= r <= _RATIOS[1] for r in ratios):
        return None
    a, b = (np.arange(low, high + 1, dtype=np.float64) for _, _, (low, high) in (first, second))
    steps = (((a - za) * sa)[:, None] + sign * ((b - zb) * sb)) / step + zero
    exact = zero - ratios[0] * za - sign * ratios[1] * zb
    size = 256 * max(ratios) + abs(exact)
    near = np.abs(steps - np.floor(steps) - 0.5) < size * _UNCERTAIN
    near &= (steps > limits[0] - 1) & (steps < limits[1] + 1)
    rows, columns = np.nonzero(near)
    wanted = np.clip(np.rint(steps[near]), *limits)
    shifts = np.linspace(-1, 1, _STARTS) * size * _FARTHEST
    shifts = shifts[np.argsort(np.abs(shifts), kind="stable")]
    for factor, other in _factors(ratios[0], sign * ratios[1]):
        constants = (zero - factor * za - other * zb + shifts).astype(np.float32)
        sums = _sums(factor * a[rows], other * b[columns])
        found = np.clip(np.rint(sums + constants[:, None, None]), *limits)
        is_right = (found == wanted).all(axis=(1, 2))
        if is_right.any():
            return SumConstants(factor, other, float(constants[is_right.argmax()]), limits)
    return None


def _sums(a: Floats, b: Floats) -> NDArray[np.float32]:
    """Return the sums of two exact products in float32, the products rounded before or not.

    Returns:
        (3, n).
    """
    first, second = a.astype(np.float32), b.astype(np.float32)
    fused = (a + second).astype(np.float32), (first + b).astype(np.float32)
    return np.stack([first + second, *fused])


def _factors(first: float, second: float) -> Iterator[tuple[float, float]]:
    """Yield pairs of float32 numbers near two numbers, the nearest first."""
    for one in _neighbors(first):
        for other in _neighbors(second):
            yield one, other


def _neighbors(number: float) -> list[float]:
    nearest = np.float32(number)
    ulp = float(np.spacing(np.abs(nearest)))
    around = sorted(range(-_REACH, _REACH + 1), key=abs)
    return [float(nearest) + k * ulp for k in around]
