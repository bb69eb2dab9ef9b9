"""Data types: QNN's names and codes, and their storage."""

from __future__ import annotations

import enum

import numpy as np


class DType(enum.IntEnum):
    """QNN data types; the value is QNN's numeric code.

    The low byte is the width in bits written in decimal digits, the high byte the family
    (0 signed, 1 unsigned, 2 float, 3 signed fixed point, 4 unsigned fixed point, 5 bool, 6 string).
    Source: spec/qnn_enums.md, Qnn_DataType_t.
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

    @property
    def storage(self) -> np.dtype[np.generic]:
        """NumPy type of one stored element.

        For 4-bit types, that of an unpacked element; BFLOAT_16 is stored as its bit pattern.
        """
        return _STORAGE[self]

    @property
    def bits(self) -> int:
        """Width of one stored element in bits; 0 for STRING and UNDEFINED."""
        return _BITS[self]

    @property
    def is_packed(self) -> bool:
        """True if two elements share a byte."""
        return self in (DType.SFIXED_POINT_4, DType.UFIXED_POINT_4)

    @property
    def is_float(self) -> bool:
        """True if the type is a floating-point type."""
        return _family(self) == 2

    @property
    def is_fixed_point(self) -> bool:
        """True if values are integers with an encoding."""
        return _family(self) in (3, 4)

    @property
    def is_int(self) -> bool:
        """True if the type is a plain integer type."""
        return _family(self) in (0, 1)

    @property
    def is_signed(self) -> bool:
        """True if stored values can be negative."""
        return _family(self) in (0, 2, 3)

    def stored_range(self, bitwidth: int | None = None) -> tuple[int, int]:
        """Return the minimum and maximum stored integer.

        Args:
            bitwidth: Number of bits used, if an encoding narrows the type.
        """
        bits = bitwidth or self.bits
        if self.is_signed:
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, (1 << bits) - 1

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Return the size in bytes of a tensor of `shape`; 4-bit types are packed."""
        count = 1
        for size in shape:
            count *= size
        return (count * self.bits + 7) // 8

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


def _family(dtype: DType) -> int:
    return int(dtype) >> 8


# The low byte is the width in decimal digits, but 26 for BFLOAT_16; a bool takes one byte.
_BITS: dict[DType, int] = {d: int(f"{int(d) & 0xFF:x}") for d in DType if d is not DType.UNDEFINED}
_BITS |= {DType.BFLOAT_16: 16, DType.BOOL_8: 8, DType.STRING: 0, DType.UNDEFINED: 0}


def _storage_of(dtype: DType) -> np.dtype[np.generic]:
    if dtype is DType.BFLOAT_16:
        return np.dtype(np.uint16)
    if dtype is DType.BOOL_8:
        return np.dtype(np.bool_)
    if dtype in (DType.STRING, DType.UNDEFINED):
        return np.dtype(np.uint8)
    kind = "f" if dtype.is_float else "i" if dtype.is_signed else "u"
    return np.dtype(f"{kind}{max(_BITS[dtype], 8) // 8}")


_STORAGE = {d: _storage_of(d) for d in DType}
_PLAIN = [d for d in DType if d.is_int or (d.is_float and d is not DType.BFLOAT_16)]
_OF_NUMPY: dict[np.dtype[np.generic], DType] = {d.storage: d for d in _PLAIN}
_OF_NUMPY[np.dtype(np.bool_)] = DType.BOOL_8
_FIXED = {(d.bits, d.is_signed): d for d in DType if d.is_fixed_point}
