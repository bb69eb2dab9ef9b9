"""Types of elements on a device."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from dovetail.ir import DType

VECTOR = 8  # elements that LOAD8 and STORE8 of a program move at once


class Element(enum.Enum):
    """Type of elements on a device: its name in OpenCL C, and its size in bytes."""

    FLOAT = ("float", 4)
    HALF = ("half", 2)
    INT = ("int", 4)
    UINT = ("uint", 4)
    LONG = ("long", 8)
    ULONG = ("ulong", 8)
    SHORT = ("short", 2)
    USHORT = ("ushort", 2)
    CHAR = ("char", 1)
    UCHAR = ("uchar", 1)

    @property
    def text(self) -> str:
        """Its name in OpenCL C."""
        return self.value[0]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.value[1]

    @property
    def storage(self) -> np.dtype[Any]:
        """Its type in NumPy."""
        return np.dtype(_STORAGE.get(self.text, self.text))

    @property
    def is_float(self) -> bool:
        """True for real numbers."""
        return self in (Element.FLOAT, Element.HALF)


_STORAGE = {
    "float": "f4",
    "half": "f2",
    "int": "i4",
    "uint": "u4",
    "long": "i8",
    "ulong": "u8",
    "short": "i2",
    "ushort": "u2",
    "char": "i1",
    "uchar": "u1",
}
STORED = {
    DType.FLOAT_32: Element.FLOAT,
    DType.FLOAT_16: Element.HALF,
    DType.INT_32: Element.INT,
    DType.UINT_32: Element.UINT,
    DType.INT_64: Element.LONG,
    DType.UINT_64: Element.ULONG,
    DType.INT_16: Element.SHORT,
    DType.UINT_16: Element.USHORT,
    DType.INT_8: Element.CHAR,
    DType.UINT_8: Element.UCHAR,
    DType.BOOL_8: Element.UCHAR,
    DType.SFIXED_POINT_8: Element.CHAR,
    DType.UFIXED_POINT_8: Element.UCHAR,
    DType.SFIXED_POINT_16: Element.SHORT,
    DType.UFIXED_POINT_16: Element.USHORT,
    DType.SFIXED_POINT_32: Element.INT,
    DType.UFIXED_POINT_32: Element.UINT,
}
