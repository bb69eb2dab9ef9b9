"""Types of stored integers."""

from __future__ import annotations

from dovetail.ir import DType, ScaleOffset, Spec
from dovetail_onednn._api import DataType

# Those that the library multiplies, and those that are products of their bytes.
TYPES = {DType.UFIXED_POINT_8: DataType.U8, DType.SFIXED_POINT_8: DataType.S8}
WORDS = frozenset({DType.UFIXED_POINT_16, DType.SFIXED_POINT_16})

EXACT = 1 << 24  # below this, float32 holds each integer
_BYTE = 8  # bits
_FARTHEST_ZERO = 1024


def is_narrow(spec: Spec) -> bool:
    """Return whether the library's float32 formulas serve a tensor.

    It has up to 8 bits, one scale above 0, and a zero point between -1024 and 1024.
    """
    if not isinstance(spec.encoding, ScaleOffset) or not spec.dtype.is_fixed_point:
        return False
    is_near = abs(spec.encoding.offset) <= _FARTHEST_ZERO
    return spec.dtype.bits <= _BYTE and spec.encoding.scale > 0 and is_near
