"""What plain integers and bools can hold."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType
from dovetail.ops import unstorable


@pytest.mark.parametrize(
    ("dtype", "values", "wrong"),
    [
        (DType.INT_8, [-129, -128, 0, 0.5, 127, 128, np.nan, np.inf], [1, 0, 0, 1, 0, 1, 1, 1]),
        (DType.UINT_8, [-1, 0, 255, 256], [1, 0, 0, 1]),
        (DType.BOOL_8, [-1, 0, 1, 2, 0.5], [1, 0, 0, 1, 1]),
        (DType.INT_32, [2.0**31, -(2.0**31), 2.0**31 - 2**7], [1, 0, 0]),
        (DType.INT_64, [2.0**63, -(2.0**63), 2.0**62], [1, 0, 0]),
        (DType.FLOAT_16, [1e30, 0.1, np.nan], [0, 0, 0]),
        (DType.UFIXED_POINT_8, [1e30, -5], [0, 0]),
    ],
)
@pytest.mark.parametrize("given", [np.float16, np.float32, np.float64])
def test_floats(dtype: DType, values: list[float], wrong: list[int], given: type) -> None:
    with np.errstate(over="ignore"):
        array = np.array(values).astype(given)
    if given is np.float16:  # where rounding to float16 changes the value, it is another question
        keep = array.astype(np.float64) == np.array(values)
        keep |= np.isnan(values)
        array, wrong = array[keep], [w for w, k in zip(wrong, keep, strict=True) if k]
    assert unstorable(array, dtype).tolist() == [bool(w) for w in wrong]


def test_integers_are_compared_exactly() -> None:
    values = np.array([2**31 - 1, 2**31, -(2**31) - 1], np.int64)
    assert unstorable(values, DType.INT_32).tolist() == [False, True, True]
    assert not unstorable(values.astype(np.int32), DType.INT_32).any()
