"""Whether outputs are the answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import to_real
from dovetail.testing.case import Encoded, OpCase


def difference(found: Array, expected: Encoded, case: OpCase) -> str:
    """Return how a stored output differs from the answer beyond the case's tolerance, or nothing.

    Floats: within `atol + rtol * |answer|`, NaN where the answer has it. Fixed-point values: within
    `steps` of the stored integers. Everything else exactly.
    """
    if (found.dtype, found.shape) != (expected.values.dtype, expected.values.shape):
        return (
            f"it is {found.dtype} {found.shape}; the answer is {expected.values.dtype} "
            f"{expected.values.shape}"
        )
    wrong, distance = _distances(found, expected, case)
    if not wrong.any():
        return ""
    worst = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), wrong.shape)
    at = tuple(int(i) for i in worst)
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ; the worst is "
        f"{found[at]} at {at}, where the answer is {expected.values[at]}"
    )


def _distances(
    found: Array, expected: Encoded, case: OpCase
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which elements are wrong, and how far each is off; infinite where one is NaN."""
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
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        distance = np.abs(given - wanted)
    return np.asarray(wrong), np.asarray(np.nan_to_num(distance, nan=np.inf))
