"""ONNX element types: which IR type each becomes and how its elements are stored."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from dovetail.ir import Array, DType
from dovetail.ir.storage import bfloat16_to_float32, float32_to_bfloat16
from dovetail_opset.importing.constant import Constant

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.FLOAT_32,
    TensorProto.UINT8: DType.UINT_8,
    TensorProto.INT8: DType.INT_8,
    TensorProto.UINT16: DType.UINT_16,
    TensorProto.INT16: DType.INT_16,
    TensorProto.INT32: DType.INT_32,
    TensorProto.INT64: DType.INT_64,
    TensorProto.BOOL: DType.BOOL_8,
    TensorProto.FLOAT16: DType.FLOAT_16,
    TensorProto.DOUBLE: DType.FLOAT_64,
    TensorProto.UINT32: DType.UINT_32,
    TensorProto.UINT64: DType.UINT_64,
    TensorProto.BFLOAT16: DType.BFLOAT_16,
}
# Integers of 4 bits, which the IR has for fixed-point only, are kept in bytes; see `_four_bits`.
PACKED: dict[int, DType] = {
    TensorProto.INT4: DType.INT_8,
    TensorProto.UINT4: DType.UINT_8,
}
PACKED_RANGES: dict[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
}
# Their names in ml_dtypes.
_BYTES = {"int4": np.int8, "uint4": np.uint8}
ELEMENT_TYPES: dict[DType, int] = {dtype: code for code, dtype in DTYPES.items()}


def dtype_of(code: int) -> DType | None:
    """Return the type that elements are stored as; None if they cannot be converted."""
    return DTYPES.get(code, PACKED.get(code))


def element_type_name(code: int) -> str:
    """Return ONNX's name of an element type, or its number where it has none."""
    known: dict[int, str] = {number: name for name, number in TensorProto.DataType.items()}
    return known.get(code, f"number {code}")


def like_onnx(constant: Constant) -> Array:
    """Return the values in the type that ONNX's own Python code computes with."""
    if constant.dtype is not DType.BFLOAT_16:
        return constant.values
    narrow = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    bits = float32_to_bfloat16(constant.values)
    # older releases of onnx compute with float32 instead
    return bits.view(narrow) if narrow.itemsize == bits.itemsize else constant.values


def to_stored(values: Array, dtype: DType) -> Array:
    """Return an array of ONNX's Python code in the IR's stored form: bfloat16 as its bits."""
    if dtype is DType.BFLOAT_16 and values.dtype.name == "bfloat16":
        return values.view(np.uint16)
    return as_bytes(values)


def as_bytes(values: Array) -> Array:
    """Return 4-bit integers in bytes, as ONNX's Python code stores them; other values unchanged."""
    wide = _BYTES.get(values.dtype.name)
    return values if wide is None else values.astype(wide)


def from_stored(values: Array, dtype: DType, code: int = TensorProto.UNDEFINED) -> Array:
    """Return stored values of a type in the NumPy type that ONNX's Python code uses for it.

    Args:
        values: The values.
        dtype: Their type.
        code: The element type that the model says they are of, if it says one.
    """
    if PACKED.get(code) is dtype:
        return values.astype(helper.tensor_dtype_to_np_dtype(code))
    if dtype is not DType.BFLOAT_16:
        return values
    narrow = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    return values.view(narrow) if narrow.itemsize == 2 else bfloat16_to_float32(values)
