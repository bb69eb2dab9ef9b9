"""Types of stored integers that the library multiplies."""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onednn._api import DataType

TYPES = {DType.UFIXED_POINT_8: DataType.U8, DType.SFIXED_POINT_8: DataType.S8}
