"""Scalar params as members of the union in Qnn_Scalar_t."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.csource.literals import double, integer, single, text
from dovetail.ir import DType, Scalar
from dovetail.ir.storage import float32_to_bfloat16

_MEMBERS: Mapping[DType, str] = {
    DType.INT_8: "int8Value",
    DType.INT_16: "int16Value",
    DType.INT_32: "int32Value",
    DType.INT_64: "int64Value",
    DType.UINT_8: "uint8Value",
    DType.UINT_16: "uint16Value",
    DType.UINT_32: "uint32Value",
    DType.UINT_64: "uint64Value",
    DType.FLOAT_16: "uint16Value",  # its bits
    DType.BFLOAT_16: "bfloat16Value",  # its bits
    DType.FLOAT_32: "floatValue",
    DType.FLOAT_64: "doubleValue",
    DType.BOOL_8: "bool8Value",
    DType.STRING: "stringValue",
    DType.SFIXED_POINT_8: "int8Value",
    DType.SFIXED_POINT_16: "int16Value",
    DType.SFIXED_POINT_32: "int32Value",
    DType.UFIXED_POINT_8: "uint8Value",
    DType.UFIXED_POINT_16: "uint16Value",
    DType.UFIXED_POINT_32: "uint32Value",
}


def scalar_member(scalar: Scalar) -> str:
    """Return the designated initializer of a scalar's value."""
    return f".{_MEMBERS.get(scalar.dtype, 'int32Value')} = {_scalar_value(scalar)}"


def _scalar_value(scalar: Scalar) -> str:
    value, dtype = scalar.value, scalar.dtype
    if isinstance(value, str):
        return text(value)
    if dtype is DType.FLOAT_32:
        with np.errstate(over="ignore"):
            return single(float(np.float32(value)))
    if dtype is DType.FLOAT_64:
        return double(value)
    if dtype is DType.FLOAT_16:
        with np.errstate(over="ignore"):
            return str(int(np.float16(value).view(np.uint16)))
    if dtype is DType.BFLOAT_16:
        return str(int(float32_to_bfloat16(np.array(value, np.float32))))
    return integer(int(value))
