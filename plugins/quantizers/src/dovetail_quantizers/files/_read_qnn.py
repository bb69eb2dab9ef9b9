"""The encodings in the `model_net.json` of a converter.

Source: spec/netron_qnn.md, sections 3 and 4; docs/qnn_formats.md for our own key. Names are the
converted model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dovetail.container.entries import ArrayReader, EncodingEntry, load_encoding
from dovetail.errors import DovetailError
from dovetail.ir import AxisScaleOffset, DType, EncodingKind, TensorKind
from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files._json import decode
from dovetail_quantizers.files.form import Form, TensorEncoding
from dovetail_quantizers.files.from_graph import exact_scales

DEFINED = 1
# The last one is how this package writes the kind, with all digits; the keys that converters have
# for it are not known.
KEYS: Mapping[int, str] = {
    EncodingKind.SCALE_OFFSET: "scale_offset",
    EncodingKind.AXIS_SCALE_OFFSET: "axis_scale_offset",
    EncodingKind.BW_SCALE_OFFSET: "bw_scale_offset",
    EncodingKind.BW_AXIS_SCALE_OFFSET: "bw_axis_scale_offset",
}
_NARROW = (EncodingKind.BW_SCALE_OFFSET, EncodingKind.BW_AXIS_SCALE_OFFSET)

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
    dovetail: EncodingEntry | None = None  # as the exporter `qnn-json` writes other kinds


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
    at = at.below(".quant_params")
    if found.dovetail is not None:
        return _own(name, dtype, found.dovetail, is_param, at.below(".dovetail"))
    return _fixed(name, dtype, found, is_param, at)


def _own(
    name: str, dtype: DType, given: EncodingEntry, is_param: bool | None, at: FileLocation
) -> TensorEncoding | None:
    """Return the entry of an encoding along an axis that has the form of a container."""
    try:
        encoding = load_encoding(given, ArrayReader((), at.path))
    except DovetailError as error:
        at.fault(error.message)
        return None
    if not isinstance(encoding, AxisScaleOffset):
        at.fault(f"an encoding of kind {encoding.kind.name} is not read")
        return None
    scales = exact_scales(encoding.scales)
    offsets = np.zeros(scales.shape) if encoding.offsets is None else encoding.offsets
    if scales.shape != offsets.shape:
        at.fault(f"{len(offsets)} offsets for {len(scales)} scales")
        return None
    pairs = [_ScaleOffset(*pair) for pair in zip(scales.tolist(), offsets.tolist(), strict=True)]
    bitwidth = dtype.bits if encoding.bitwidth is None else encoding.bitwidth
    return _entry(name, dtype, bitwidth, _Axis(encoding.axis, pairs), is_param, at)


def _fixed(
    name: str, dtype: DType, found: _Quantization, is_param: bool | None, at: FileLocation
) -> TensorEncoding | None:
    if found.encoding not in KEYS:
        at.fault(f"encoding {found.encoding} is not read", ".encoding", "0 to 3 are")
        return None
    key = KEYS[found.encoding]
    inner: _ScaleOffset | _Axis | None = getattr(found, key)
    if inner is None:
        at.fault(f"the key '{key}' is missing")
        return None
    bitwidth = inner.bitwidth or 0 if found.encoding in _NARROW else dtype.bits
    return _entry(name, dtype, bitwidth, inner, is_param, at.below(f".{key}"))


def _entry(
    name: str,
    dtype: DType,
    bitwidth: int,
    inner: _ScaleOffset | _Axis,
    is_param: bool | None,
    at: FileLocation,
) -> TensorEncoding | None:
    if not 2 <= bitwidth <= dtype.bits:
        at.fault(f"a bitwidth of {bitwidth} for {dtype.name}", ".bitwidth")
        return None
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
