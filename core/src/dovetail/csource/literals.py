"""Literals of C."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from dovetail.ir import DType

_UNSAFE = re.compile(r'[\x00-\x1f"\\?\x7f]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "?": "\\?"}

# The type of an element, for the arrays that a program reads.
_TYPES = {
    DType.INT_8: "int8_t",
    DType.INT_16: "int16_t",
    DType.INT_32: "int32_t",
    DType.INT_64: "int64_t",
    DType.UINT_16: "uint16_t",
    DType.UINT_32: "uint32_t",
    DType.UINT_64: "uint64_t",
    DType.FLOAT_16: "uint16_t",
    DType.BFLOAT_16: "uint16_t",
    DType.FLOAT_32: "float",
    DType.FLOAT_64: "double",
    DType.SFIXED_POINT_8: "int8_t",
    DType.SFIXED_POINT_16: "int16_t",
    DType.SFIXED_POINT_32: "int32_t",
    DType.UFIXED_POINT_16: "uint16_t",
    DType.UFIXED_POINT_32: "uint32_t",
}


def text(value: str) -> str:
    """Return text as a literal."""
    return f'"{_UNSAFE.sub(_escape, value)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character) or f"\\{ord(character):03o}"


def single(value: float) -> str:
    """Return a float of 32 bits as a literal that denotes exactly it."""
    return _real(f"{value:.9g}", value)


def double(value: float) -> str:
    """Return a float of 64 bits as a literal that denotes exactly it."""
    return _real(repr(float(value)), value)


def _real(shown: str, value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return shown if any(c in shown for c in ".e") else f"{shown}.0"


def integer(value: int) -> str:
    """Return an integer as a literal of a type that holds it."""
    if -(2**31) < value < 2**31:
        return str(value)
    return f"{value}{'ULL' if value >= 2**63 else 'LL'}"


def braces(values: Iterable[str]) -> str:
    """Return an initializer."""
    return f"{{{', '.join(values)}}}"


def element_type(dtype: DType) -> str:
    """Return the type of an element of an array of stored values."""
    return _TYPES.get(dtype, "uint8_t")
