"""Data types: QNN's names and codes, and their storage."""

from __future__ import annotations

import enum
import math

import numpy as np

# The low byte of a code is the width in decimal digits, but for these; a bool takes one byte.
_BITS = {"BFLOAT_16": 16, "BOOL_8": 8, "STRING": 0, "UNDEFINED": 0}
# BFLOAT_16 is stored as its bit pattern.
_STORAGE: dict[str, np.dtype[np.generic]] = {
    "BFLOAT_16": np.dtype(np.uint16),
    "BOOL_8": np.dtype(np.bool_),
    "STRING": np.dtype(np.uint8),
    "UNDEFINED": np.dtype(np.uint8),
}


class DType(enum.IntEnum):
    """QNN data types; the value is QNN's numeric code.

    The low byte is the width in bits written in decimal digits, the high byte the family
    (0 signed, 1 unsigned, 2 float, 3 signed fixed point, 4 unsigned fixed point, 5 bool, 6 string).
    Source: spec/qnn_enums.md, Qnn_DataType_t.

    Attributes:
        bits: Width of one stored element in bits; 0 for STRING and UNDEFINED.
        storage: NumPy type of one stored element; for 4-bit types, that of an unpacked element.
        is_packed: True if two elements share a byte.
        is_float: True if the type is a floating-point type.
        is_fixed_point: True if values are integers with an encoding.
        is_int: True if the type is a plain integer type.
        is_signed: True if stored values can be negative.
        is_plain: True if values are stored as they are, each in one item of `storage`.
    """

    INT_8 = 0x0008
    INT_16 = 0x0016
    INT_32 = 0x0032
    INT_64 = 0x0064
    UINT_8 = 0x0108
    UINT_16 = 0x0116
    UINT_32 = 0x0132
    UINT_64 = 0x0164
    FLOAT_16 = 0x0216
    BFLOAT_16 = 0x0226
    FLOAT_32 = 0x0232
    FLOAT_64 = 0x0264
    SFIXED_POINT_4 = 0x0304
    SFIXED_POINT_8 = 0x0308
    SFIXED_POINT_16 = 0x0316
    SFIXED_POINT_32 = 0x0332
    UFIXED_POINT_4 = 0x0404
    UFIXED_POINT_8 = 0x0408
    UFIXED_POINT_16 = 0x0416
    UFIXED_POINT_32 = 0x0432
    BOOL_8 = 0x0508
    STRING = 0x0608
    UNDEFINED = 0x7FFFFFFF

    # Found once: these are asked for each of thousands of tensors.
    bits: int
    storage: np.dtype[np.generic]
    is_packed: bool
    is_float: bool
    is_fixed_point: bool
    is_int: bool
    is_signed: bool
    is_plain: bool

    def __init__(self, code: int) -> None:
        family = code >> 8
        self.bits = _BITS[self.name] if self.name in _BITS else int(f"{code & 0xFF:x}")
        self.is_packed = self.bits == 4
        self.is_float = family == 2
        self.is_fixed_point = family in (3, 4)
        self.is_int = family in (0, 1)
        self.is_signed = family in (0, 2, 3)
        kind = "f" if self.is_float else "i" if self.is_signed else "u"
        plain = np.dtype(f"{kind}{max(self.bits, 8) // 8}")
        self.storage = _STORAGE.get(self.name, plain)
        self.is_plain = not self.is_packed and self.name not in ("BFLOAT_16", "STRING")

    def stored_range(self, bitwidth: int | None = None) -> tuple[int, int]:
        """Return the minimum and maximum stored integer.

        Args:
            bitwidth: Number of bits used, if an encoding narrows the type.
        """
        width = bitwidth or self.bits
        if self.is_signed:
            return -(1 << (width - 1)), (1 << (width - 1)) - 1
        return 0, (1 << width) - 1

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Return the size in bytes of a tensor of `shape`; 4-bit types are packed."""
        return (math.prod(shape) * self.bits + 7) // 8

    @classmethod
    def of(cls, dtype: np.dtype[np.generic]) -> DType:
        """Return the plain (not fixed-point) type of NumPy arrays of `dtype`.

        Raises:
            KeyError: No data type corresponds to `dtype`.
        """
        return _OF_NUMPY[np.dtype(dtype)]

    @classmethod
    def fixed(cls, bits: int, *, signed: bool) -> DType:
        """Return the fixed-point type of a width: 4, 8, 16 or 32 bits.

        Raises:
            KeyError: No fixed-point type has this width.
        """
        return _FIXED[bits, signed]


_PLAIN = [d for d in DType if d.is_int or (d.is_float and d is not DType.BFLOAT_16)]
_OF_NUMPY: dict[np.dtype[np.generic], DType] = {d.storage: d for d in _PLAIN}
_OF_NUMPY[np.dtype(np.bool_)] = DType.BOOL_8
_FIXED = {(d.bits, d.is_signed): d for d in DType if d.is_fixed_point}
