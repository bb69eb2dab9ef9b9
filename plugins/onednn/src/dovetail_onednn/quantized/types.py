"""Types of stored integers."""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onednn._api import DataType

# Those that the library multiplies, and those that are products of their bytes.
TYPES = {DType.UFIXED_POINT_8: DataType.U8, DType.SFIXED_POINT_8: DataType.S8}
WORDS = frozenset({DType.UFIXED_POINT_16, DType.SFIXED_POINT_16})
