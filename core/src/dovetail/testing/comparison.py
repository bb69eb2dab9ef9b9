"""Whether outputs are the answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import to_real
from dovetail.testing.case import Encoded, OpCase


def difference(found: Array, answer: Encoded, case: OpCase) -> str:
    """Says how a stored output differs from the answer beyond the case's tolerance, or nothing.

    Floats: within `atol + rtol * |answer|`, NaN where the answer has it. Fixed-point values: within
    `steps` of the stored integers. Everything else exactly.
    """
    if (found.dtype, found.shape) != (answer.values.dtype, answer.values.shape):
        return (
            f"it is {found.dtype} {found.shape}; the answer is {answer.values.dtype} "
            f"{answer.values.shape}"
        )
    wrong, distance = _distances(found, answer, case)
    if not wrong.any():
        return ""
    worst = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), wrong.shape)
    at = tuple(int(i) for i in worst)
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements differ; the worst is "
        f"{found[at]} at {at}, where the answer is {answer.values[at]}"
    )


def _distances(
    found: Array, answer: Encoded, case: OpCase
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which elements are wrong, and how far each is off; infinite where one is NaN."""
    if answer.dtype.is_float:
        given, wanted = (to_real(a, answer.spec).astype(np.float64) for a in (found, answer.values))
        wrong = ~np.isclose(given, wanted, case.rtol, case.atol, equal_nan=True)
    else:
        given, wanted = found.astype(np.float64), answer.values.astype(np.float64)
        wrong = np.asarray(found != answer.values)
        if answer.dtype.is_fixed_point:
            wrong = np.abs(given - wanted) > case.steps
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        distance = np.abs(given - wanted)
    return np.asarray(wrong), np.asarray(np.nan_to_num(distance, nan=np.inf))
