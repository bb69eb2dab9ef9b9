"""Comparison with expected outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import to_real
from dovetail.testing.case import Encoded, OpCase


def difference(found: Array, expected: Encoded, case: OpCase) -> str:
    """Return how a stored output exceeds the case's tolerance; empty text if it does not.

    Floats: within `atol + rtol * |expected|`, NaN where NaN is expected. Fixed-point values: within
    `steps` of the stored integers. Other values: equal.
    """
    if (found.dtype, found.shape) != (expected.values.dtype, expected.values.shape):
        return (
            f"got {found.dtype} {found.shape}, expected {expected.values.dtype} "
            f"{expected.values.shape}"
        )
    wrong, distance = _distances(found, expected, case)
    if not wrong.any():
        return ""
    worst = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), wrong.shape)
    at = tuple(int(i) for i in worst)
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ; the worst is "
        f"{found[at]} at {at}, expected {expected.values[at]}"
    )


def _distances(
    found: Array, expected: Encoded, case: OpCase
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which elements are wrong, and the error of each, infinite for an unexpected NaN."""
    if expected.dtype.is_float:
        given, wanted = (
            to_real(a, expected.spec).astype(np.float64) for a in (found, expected.values)
        )
        wrong = ~np.isclose(given, wanted, case.rtol, case.atol, equal_nan=True)
    else:
        given, wanted = found.astype(np.float64), expected.values.astype(np.float64)
        wrong = np.asarray(found != expected.values)
        if expected.dtype.is_fixed_point:
            wrong = np.abs(given - wanted) > case.steps
    with np.errstate(invalid="ignore"):  # the difference of infinities
        distance = np.abs(given - wanted)
    return np.asarray(wrong), np.asarray(np.nan_to_num(distance, nan=np.inf))
