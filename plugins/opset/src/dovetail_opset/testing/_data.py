"""Inputs of several cases, the same in every process, and the narrower types of cases."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from dovetail.ir import Array, DType
from dovetail.testing import OpCase, typed

# Types that backends use besides float32: half floats, and fixed point of both widths and signs.
NARROW = (DType.FLOAT_16, DType.UFIXED_POINT_8, DType.SFIXED_POINT_16)


def real(*shape: int, low: float = -3.0, high: float = 3.0, seed: int = 1) -> Array:
    """Return float32 values in a range, in random order.

    Args:
        shape: Any shape; none at all is rank 0.
        low: Minimum.
        high: Maximum.
        seed: Another seed returns other values.
    """
    values = np.random.default_rng(seed).uniform(low, high, shape)
    return np.asarray(values, np.float32)


def whole(
    *shape: int, low: int = -9, high: int = 10, seed: int = 1, dtype: DTypeLike = np.int32
) -> Array:
    """Return integers from `low` to `high`, which is not included."""
    return np.asarray(np.random.default_rng(seed).integers(low, high, shape), dtype)


def truth(*shape: int, seed: int = 1) -> Array:
    """Return booleans."""
    return whole(*shape, low=0, high=2, seed=seed).astype(np.bool_)


def widely(case: OpCase, *dtypes: DType, steps: int = 1) -> tuple[OpCase, ...]:
    """Return a float32 case and the same in narrower types."""
    return (case, *typed(case, *(dtypes or NARROW), steps=steps))
