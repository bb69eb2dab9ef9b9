"""NaN in arrays of the library's float types.

Kernels look for NaN with these functions where the library ignores it, and in large values by a
`NanSearch`. It takes 0.5 us for small ones.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_onednn._api import DataType

_INFINITY = 0x7F80  # bits of bfloat16; a larger magnitude is NaN
_MAGNITUDE = 0x7FFF
_FLOAT_BYTES = 4
_FEW = 4096  # elements for which NumPy's dot is faster than a maximum, and uses one thread
_NAN = {DataType.F32: np.nan, DataType.BF16: 0x7FC0}
_ONE = {DataType.F32: 1.0, DataType.BF16: 0x3F80}


def elements(data: Array, kind: DataType) -> Array:
    """Return an array's elements, flat: float32, or the bits of bfloat16 as uint16.

    Args:
        data: C-contiguous.
        kind: F32 or BF16.
    """
    return data.reshape(-1).view(np.float32 if kind is DataType.F32 else np.uint16)


def has_nan(values: Array) -> bool:
    """Return whether any of some `elements` is NaN.

    NumPy may warn of an overflow, unless its error state ignores that, as in runs of a backend.
    """
    if values.itemsize == _FLOAT_BYTES:
        # a sum of squares is NaN if and only if an element is
        found = values.dot(values) if values.size <= _FEW else np.maximum.reduce(values)
        return bool(found != found)
    highest = np.maximum.reduce(values)
    # as unsigned numbers negative NaN are above all others, as signed ones positive NaN are
    is_negative_nan = int(highest) > _INFINITY | ~_MAGNITUDE & 0xFFFF
    return is_negative_nan or int(np.maximum.reduce(values.view(np.int16))) > _INFINITY


def is_nan(values: Array) -> Array:
    """Return which of some `elements` are NaN, bool."""
    if values.dtype == np.float32:
        return np.asarray(np.isnan(values))
    return np.asarray((values & _MAGNITUDE) > _INFINITY)


def marked(values: Array, kind: DataType) -> Array:
    """Return `elements` that are 1 where some are NaN and 0 elsewhere."""
    found: Array = is_nan(values) * values.dtype.type(_ONE[kind])
    return found


def set_nan(values: Array, where: Array, kind: DataType) -> None:
    """Set some `elements` to NaN."""
    values[where] = _NAN[kind]
