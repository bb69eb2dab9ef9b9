"""Encodings of tensors, to and from their tables."""

from __future__ import annotations

import numpy as np

from dovetail.errors import QuantizationError
from dovetail.ir import AxisScaleOffset, DType, Encoding, EncodingKind, ScaleOffset
from dovetail_qnn.dlc._tables import UNDEFINED, AxisElement, PerAxis, Quantization

# Kinds that have a bitwidth of their own; the others use all bits of the type.
_NARROWED = (EncodingKind.BW_SCALE_OFFSET, EncodingKind.BW_AXIS_SCALE_OFFSET)
_PER_TENSOR = (EncodingKind.SCALE_OFFSET, EncodingKind.BW_SCALE_OFFSET)
_PER_AXIS = (EncodingKind.AXIS_SCALE_OFFSET, EncodingKind.BW_AXIS_SCALE_OFFSET)
_FLOAT32_LIMIT = float(np.finfo(np.float32).max)


def read_encoding(table: Quantization | None) -> Encoding | None:
    """Return the encoding of a table; None if it says that there is none.

    Raises:
        QuantizationError: The table is inconsistent, or has another kind of encoding.
    """
    if table is None or table.kind == UNDEFINED:
        return None
    bitwidth = bitwidth_of(table) if table.kind in _NARROWED else None
    if table.kind in _PER_TENSOR and table.per_tensor is not None:
        return ScaleOffset(table.per_tensor.scale, table.per_tensor.offset, bitwidth)
    if table.kind in _PER_AXIS and table.per_axis is not None:
        elements = table.per_axis.elements
        return AxisScaleOffset(
            table.per_axis.axis,
            np.array([e.scale for e in elements], np.float32),
            np.array([e.offset for e in elements], np.int32),
            bitwidth,
        )
    if table.kind in (*_PER_TENSOR, *_PER_AXIS):
        raise QuantizationError("the encoding has no scale")
    known = next((k.name for k in EncodingKind if k == table.kind), str(table.kind))
    raise QuantizationError(
        f"unsupported encoding {known} in a DLC", hint="quantize per tensor or per axis"
    )


def bitwidth_of(table: Quantization) -> int | None:
    """Return the number of bits that a table states; None if it states none.

    Raises:
        QuantizationError: It states several.
    """
    found = {element.bitwidth for element in _elements(table)}
    if len(found) > 1:
        raise QuantizationError(f"the encoding has several bitwidths: {sorted(found)}")
    return next(iter(found), 0) or None


def cached_type(table: Quantization, bits: int) -> DType:
    """Return the type for which a float tensor's table states an encoding.

    Signed if every slice is symmetric without an offset, as weights and biases are.

    Raises:
        KeyError: No fixed-point type has this width.
    """
    is_signed = all(e.is_symmetric and not e.offset for e in _elements(table))
    return DType.fixed(bits, signed=is_signed)


def _elements(table: Quantization) -> tuple[AxisElement, ...]:
    """Return the scales of a table, whatever its kind says."""
    single = () if table.per_tensor is None else (table.per_tensor,)
    return single if table.per_axis is None else (*single, *table.per_axis.elements)


def write_encoding(encoding: Encoding | None, dtype: DType) -> Quantization:
    """Return the table of an encoding.

    Raises:
        QuantizationError: A DLC cannot store the encoding.
    """
    if encoding is None:
        return Quantization(kind=UNDEFINED)
    bits = encoding.bitwidth or dtype.bits
    if isinstance(encoding, ScaleOffset):
        element = _element(float(encoding.scale), int(encoding.offset), bits, dtype)
        return Quantization(int(encoding.kind), 1, per_tensor=element)
    if isinstance(encoding, AxisScaleOffset):
        offsets = np.zeros(len(encoding.scales)) if encoding.offsets is None else encoding.offsets
        pairs = zip(encoding.scales, offsets, strict=True)
        elements = tuple(_element(float(s), int(o), bits, dtype) for s, o in pairs)
        return Quantization(int(encoding.kind), 1, per_axis=PerAxis(encoding.axis, elements))
    raise QuantizationError(
        f"a DLC cannot store the encoding {encoding.kind.name}",
        hint="quantize per tensor or per axis",
    )


def _element(scale: float, offset: int, bits: int, dtype: DType) -> AxisElement:
    low, high = dtype.stored_range(bits)
    is_symmetric = dtype.is_signed and not offset
    return AxisElement(
        bits,
        _clipped((low + offset) * scale),
        _clipped((high + offset) * scale),
        scale,
        offset,
        int(is_symmetric),
    )


def _clipped(value: float) -> float:
    return min(max(value, -_FLOAT32_LIMIT), _FLOAT32_LIMIT)
