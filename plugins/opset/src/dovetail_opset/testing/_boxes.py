"""Boxes of several cases: A and B overlap by 90 of 110, C is far from both."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array

A, B, C = (0, 0, 10, 10), (0, 1, 10, 11), (20, 20, 30, 30)
NONE = (0, 0, 0, 0)


def floats(*rows: object) -> Array:
    """Return rows as float32."""
    return np.array(rows, np.float32)


def ints(*rows: object) -> Array:
    """Return rows as int32."""
    return np.array(rows, np.int32)


def counts(*rows: object) -> Array:
    """Return rows as uint32."""
    return np.array(rows, np.uint32)
