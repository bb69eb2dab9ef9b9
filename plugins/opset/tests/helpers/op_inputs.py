"""Inputs of ops: elements that all differ, and drawn indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from dovetail.ir import Array, Shape


def numbered(shape: Shape, dtype: type = np.float32) -> Array:
    """Return the integers from 0 in a shape."""
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


def draw_indices(data: Any, shape: Shape, size: int) -> Array:
    """Draw indices into an axis of a size; negative ones count from its end."""
    count = int(np.prod(shape))
    each = st.integers(-size, size - 1)
    values = data.draw(st.lists(each, min_size=count, max_size=count))
    return np.array(values, np.int32).reshape(shape)
