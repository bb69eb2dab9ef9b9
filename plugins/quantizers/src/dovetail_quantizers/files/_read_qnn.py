"""The encodings in the `model_net.json` of a converter.

Source: spec/netron_qnn.md, sections 3 and 4. Names are the converted model's.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dovetail.ir import DType, TensorKind
from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files._json import decode
from dovetail_quantizers.files.form import Form, TensorEncoding

DEFINED = 1
SCALE_OFFSET, AXIS, NARROW, NARROW_AXIS = 0, 1, 2, 3

# Other keys belong to the model and are ignored.


class _ScaleOffset(msgspec.Struct, frozen=True):
    scale: float
    offset: float  # bounded by the type; an integer
    bitwidth: int | None = None


class _Axis(msgspec.Struct, frozen=True):
    axis: Annotated[int, Meta(ge=0, lt=64)]
    scale_offsets: Annotated[list[_ScaleOffset], Meta(min_length=1)]
    num_scale_offsets: int | None = None
    bitwidth: int | None = None


class _Quantization(msgspec.Struct, frozen=True):
    definition: int
    encoding: int
    scale_offset: _ScaleOffset | None = None
    axis_scale_offset: _Axis | None = None
    bw_scale_offset: _ScaleOffset | None = None
    bw_axis_scale_offset: _Axis | None = None


class _Tensor(msgspec.Struct, frozen=True):
    data_type: int
    quant_params: dict[str, Any]
    type: int | None = None


def read_tensor(name: str, data: Any, at: FileLocation) -> TensorEncoding | None:
    """Return the entry of a tensor; None if it is neither quantized nor float; report faults."""
    raw = decode(data, _Tensor, at)
    if raw is None:
        return None
    try:
        dtype = DType(raw.data_type)
    except ValueError:
        at.fault(f"{raw.data_type} is not a data type", ".data_type")
        return None
    is_param = None if raw.type is None else raw.type == TensorKind.STATIC
    if dtype in (DType.FLOAT_16, DType.FLOAT_32):
        return TensorEncoding(name, "float", dtype.bits, is_param=is_param)
    found = decode(raw.quant_params, _Quantization, at.below(".quant_params"))
    if found is None or found.definition != DEFINED:
        return None
    if not dtype.is_fixed_point:
        at.fault(f"{dtype.name} takes no encoding", ".quant_params")
        return None
    return _fixed(name, dtype, found, is_param, at.below(".quant_params"))


def _fixed(
    name: str, dtype: DType, found: _Quantization, is_param: bool | None, at: FileLocation
) -> TensorEncoding | None:
    keys = {
        SCALE_OFFSET: "scale_offset",
        AXIS: "axis_scale_offset",
        NARROW: "bw_scale_offset",
        NARROW_AXIS: "bw_axis_scale_offset",
    }
    if found.encoding not in keys:
        at.fault(f"encoding {found.encoding} is not read", ".encoding", "0 to 3 are")
        return None
    key = keys[found.encoding]
    inner: _ScaleOffset | _Axis | None = getattr(found, key)
    if inner is None:
        at.fault(f"the key '{key}' is missing")
        return None
    bitwidth = dtype.bits
    if found.encoding in (NARROW, NARROW_AXIS):
        bitwidth = inner.bitwidth or 0
        if not 2 <= bitwidth <= dtype.bits:
            at.fault(f"a bitwidth of {inner.bitwidth} for {dtype.name}", f".{key}.bitwidth")
            return None
    return _entry(name, dtype, bitwidth, inner, is_param, at.below(f".{key}"))


def _entry(
    name: str,
    dtype: DType,
    bitwidth: int,
    inner: _ScaleOffset | _Axis,
    is_param: bool | None,
    at: FileLocation,
) -> TensorEncoding | None:
    along = isinstance(inner, _Axis)
    pairs = inner.scale_offsets if isinstance(inner, _Axis) else [inner]
    if isinstance(inner, _Axis) and inner.num_scale_offsets not in (None, len(pairs)):
        text = f"{len(pairs)} of {inner.num_scale_offsets} scales and offsets"
        at.fault(text, ".scale_offsets")
        return None
    shape = (len(pairs),) if along else ()
    scales = np.asarray([p.scale for p in pairs], np.float64).reshape(shape)
    stored = np.asarray([p.offset for p in pairs], np.float64).reshape(shape)
    half = 1 << (bitwidth - 1) if dtype.is_signed and np.any(scales) else 0
    numbers = _numbers.given_numbers(scales, stored - half, bitwidth, at, ("", ""))
    if numbers is None:
        return None
    return TensorEncoding(
        name,
        "int",
        bitwidth,
        Form.PER_CHANNEL if along else Form.PER_TENSOR,
        dtype.is_signed and not np.any(stored),
        *numbers,
        axis=inner.axis if isinstance(inner, _Axis) else None,
        signed=dtype.is_signed,
        is_param=is_param,
    )
