"""Tensors, scalars and encodings in the initializers of a `model.cpp`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dovetail.csource import Value
from dovetail.csource.literals import element_type
from dovetail.csource.structs import (
    CLIENT_BUFFER,
    QUANTIZE,
    SCALAR,
    SCALE_OFFSET,
    TENSOR,
    struct_fields,
)
from dovetail.ir import (
    AxisScaleOffset,
    Blob,
    DataFormat,
    DType,
    Encoding,
    EncodingKind,
    MemoryType,
    Scalar,
    ScaleOffset,
    Shape,
    Tensor,
    TensorKind,
)
from dovetail.ir.storage import bfloat16_to_float32
from dovetail_qnn._cpp_source import CppSource, Function, show
from dovetail_qnn._extras import MAX_RANK
from dovetail_qnn._quantization import DEFINED
from dovetail_qnn._weights import data_fault

_VERSIONS = {1: b"Qnn_TensorV1_t", 2: b"Qnn_TensorV2_t"}
_BINARY = b"BINVARSTART("
_MAX_ELEMENTS = 2**60
_STORED: Mapping[bytes, str] = {
    b"int8_t": "i1", b"int16_t": "i2", b"int32_t": "i4", b"int64_t": "i8", b"uint8_t": "u1",
    b"uint16_t": "u2", b"uint32_t": "u4", b"uint64_t": "u8", b"float": "f4", b"double": "f8",
}  # fmt: skip
# The structs of the encodings that converters write.
_ENCODINGS: Mapping[EncodingKind, bytes] = {
    EncodingKind.SCALE_OFFSET: SCALE_OFFSET,
    EncodingKind.AXIS_SCALE_OFFSET: b"Qnn_AxisScaleOffset_t",
    EncodingKind.BW_SCALE_OFFSET: b"Qnn_BwScaleOffset_t",
    EncodingKind.BW_AXIS_SCALE_OFFSET: b"Qnn_BwAxisScaleOffset_t",
}


class TensorReader:
    """Reads the tensors of a function.

    Args:
        source: The file.
        function: The function that declares their arrays.
    """

    def __init__(self, source: CppSource, function: Function) -> None:
        self._source = source
        self._function = function

    def read(self, value: Value) -> Tensor:
        """Return a tensor.

        Raises:
            ValueError: It is not well formed, or has a number that is not QNN's.
        """
        given = self._source.struct(self._function, value, TENSOR)
        version, union = struct_fields(given, TENSOR)
        number = as_int(version)
        if number not in _VERSIONS:
            raise ValueError(f"unsupported version {number} of tensors")
        fields = _fields(union, _VERSIONS[number])
        _, name, kind, layout, code, quantization, rank, dimensions, memory, buffer = fields[:10]
        label = as_text(name, "a tensor's name")
        try:
            shape = self._shape(rank, dimensions)
            dtype = DType(as_int(code))
            marks = self._numbers(fields[10], (b"uint8_t",)) if number == 2 else []
            return Tensor(
                label,
                dtype,
                shape,
                TensorKind(as_int(kind)),
                encoding=self._encoding(quantization),
                data=self._data(buffer, dtype, shape),
                dynamic=[mark != 0 for mark in marks],
                memory_type=MemoryType(as_int(memory)),
                data_format=DataFormat(as_int(layout)),
            )
        except ValueError as error:
            raise ValueError(f"tensor '{label}': {error}") from error

    def _shape(self, rank: Value, dimensions: Value) -> Shape:
        shape = tuple(self._numbers(dimensions, (b"uint32_t",)))
        if len(shape) != as_int(rank) or len(shape) > MAX_RANK:
            raise ValueError(f"{len(shape)} dimensions where {as_int(rank)} are stated")
        if not all(isinstance(size, int) and 0 <= size < 2**32 for size in shape):
            raise ValueError("a dimension is not a number of 32 bits")
        if math.prod(size for size in shape if size) > _MAX_ELEMENTS:
            raise ValueError(f"impossible shape {shape}")
        return shape

    def _data(self, buffer: Value, dtype: DType, shape: Shape) -> Blob | None:
        """Return the values of a local array; None if the weights have them, or there are none."""
        pointer = None if buffer is None else _fields(buffer, CLIENT_BUFFER)[0]
        if pointer is None or (isinstance(pointer, bytes) and pointer.startswith(_BINARY)):
            return None
        kind = self._source.array_type(self._function, pointer)
        if kind != element_type(dtype).encode():
            raise ValueError(
                f"the array of values has the type '{show(kind)}', expected '{element_type(dtype)}'"
            )
        blob = Blob(_as_array(self._numbers(pointer, (kind,)), np.dtype(_STORED[kind])))
        if fault := data_fault(blob, dtype, shape):
            raise ValueError(fault)
        return blob

    def _encoding(self, value: Value) -> Encoding | None:
        if value is None:
            return None
        definition, code, union = _fields(value, QUANTIZE)
        if as_int(definition) != DEFINED:
            return None
        kind = EncodingKind(as_int(code))
        if kind not in _ENCODINGS:
            raise ValueError(f"the form of the encoding {kind.name} in this format is not known")
        fields = _fields(union, _ENCODINGS[kind])
        match kind:
            case EncodingKind.SCALE_OFFSET:
                return ScaleOffset(as_float(fields[0]), as_int(fields[1]))
            case EncodingKind.BW_SCALE_OFFSET:
                return ScaleOffset(as_float(fields[1]), as_int(fields[2]), as_int(fields[0]))
            case EncodingKind.AXIS_SCALE_OFFSET:
                axis, count, array = fields
                pairs = [
                    _fields(each, SCALE_OFFSET)
                    for each in self._values(array, (SCALE_OFFSET,), count)
                ]
                scales, offsets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                return _per_axis(axis, scales, offsets, None)
            case _:
                bits, axis, count, scales, offsets = fields
                whole = None if offsets is None else self._values(offsets, (b"int32_t",), count)
                numbers = self._values(scales, (b"float",), count)
                return _per_axis(axis, numbers, whole, as_int(bits))

    def _values(self, value: Value, kinds: tuple[bytes, ...], count: Value) -> list[Value]:
        is_listed = isinstance(value, list)
        found = value if is_listed else self._source.array(self._function, value, kinds)
        if len(found) != as_int(count):
            raise ValueError(f"{len(found)} scales or offsets where {as_int(count)} are stated")
        return found

    def _numbers(self, value: Value, kinds: tuple[bytes, ...]) -> list[Any]:
        found = self._source.array(self._function, value, kinds)
        if not all(isinstance(each, int | float) for each in found):
            raise ValueError(f"'{show(value)}' has something other than numbers")
        return found


def read_cpp_scalar(value: Value, name: str) -> Scalar:
    """Return a scalar.

    Raises:
        ValueError: It is not well formed, or does not fit its type.
    """
    code, inner = _fields(value, SCALAR)
    dtype = DType(as_int(code))
    if dtype is DType.STRING:
        return Scalar(dtype, as_text(inner, f"param '{name}'"))
    if dtype in (DType.FLOAT_16, DType.BFLOAT_16):  # their bits
        bits = _as_array([as_int(inner)], np.dtype(np.uint16))
        wide = bits.view(np.float16) if dtype is DType.FLOAT_16 else bfloat16_to_float32(bits)
        return Scalar(dtype, float(wide[0]))
    found = as_float(inner) if dtype.is_float else as_int(inner)
    if dtype is DType.FLOAT_32:  # as a compiler reads the digits
        with np.errstate(over="ignore"):
            found = float(np.float32(found))
    scalar = Scalar(dtype, bool(found) if dtype is DType.BOOL_8 else found)
    if not scalar.fits:
        raise ValueError(f"param '{name}': {str(found)[:40]} is not a value of {dtype.name}")
    return scalar


def as_text(value: Value, what: str) -> str:
    """Return text.

    Raises:
        ValueError: The value is something else.
    """
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, got {show(value)}")
    return value


def as_int(value: Value) -> int:
    """Return an integer; 0 if it is left out.

    Raises:
        ValueError: The value is something else.
    """
    if value is None:
        return 0
    if not isinstance(value, int):
        raise ValueError(f"expected an integer, got {show(value)}")
    return value


def as_float(value: Value) -> float:
    """Return a number as a float; 0 if it is left out.

    Raises:
        ValueError: The value is something else, or too large.
    """
    if value is None:
        return 0.0
    if not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {show(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("a number is too large") from error


def _fields(value: Value, kind: bytes) -> list[Value]:
    if not isinstance(value, list):
        raise ValueError(f"expected a {show(kind)}, got {show(value)}")
    return struct_fields(value, kind)


def _per_axis(
    axis: Value, scales: list[Value], offsets: list[Value] | None, bits: int | None
) -> AxisScaleOffset:
    with np.errstate(over="ignore"):  # infinite scales are faults of the tensor
        numbers = np.array([as_float(v) for v in scales], np.float64).astype(np.float32)
    whole = None if offsets is None else _as_array([as_int(v) for v in offsets], np.dtype(np.int32))
    return AxisScaleOffset(as_int(axis), numbers, whole, bits)


def _as_array(values: list[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return numbers as an array.

    Raises:
        ValueError: One does not fit the type.
    """
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([as_float(v) for v in values], np.float64).astype(dtype)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if not all(isinstance(v, int) and low <= v <= high for v in values):
        raise ValueError(f"a value does not fit {dtype.name}")
    return np.array(values, dtype)
