"""Entries in versions 2.0.0, 2.1.0 and `model_net.json`: on the grid of the stored type."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import DType, EncodingKind, TensorKind
from dovetail_quantizers.files._read_qnn import DEFINED, KEYS
from dovetail_quantizers.files._write_old import NotHeldError
from dovetail_quantizers.files.form import Form, Ints, TensorEncoding
from dovetail_quantizers.grid import Scheme, storage_type

_NEEDS_MODEL = "has scales along an unknown axis; pass --model"


def onnx_entry(entry: TensorEncoding, version: str) -> dict[str, Any]:
    """Return an entry in the form of 2.0.0 or 2.1.0.

    Raises:
        NotHeldError: The version cannot represent the entry.
    """
    if entry.kind == "float":
        raise NotHeldError("is float")
    if entry.scales is None:
        raise NotHeldError("has no scale and offset")
    if entry.zero_point_shift is not None:
        raise NotHeldError("has a shift of the zero point")
    if entry.form is not Form.PER_TENSOR and entry.axis is None:
        raise NotHeldError(_NEEDS_MODEL)
    made: dict[str, Any] = {"name": entry.name}
    if entry.axis is not None:
        made["axis"] = entry.axis
    if entry.block_size is not None:
        made["block_size"] = entry.block_size
    if entry.form is Form.LPBQ:
        return made | _expansion(entry, version)
    if entry.bitwidth not in (2, 4, 8, 16, 32):
        raise NotHeldError(f"has {entry.bitwidth} bits; expected 2, 4, 8, 16 or 32")
    made["output_dtype"] = f"{'' if entry.is_stored_signed else 'u'}int{entry.bitwidth}"
    made["y_scale"] = entry.scales.tolist()
    zero_points = -_stored_offsets(entry)
    if np.any(zero_points):
        made["y_zero_point"] = zero_points.tolist()
    return made


def qnn_entry(entry: TensorEncoding) -> dict[str, Any]:
    """Return an entry in the form of a tensor in `model_net.json`.

    Raises:
        NotHeldError: The form cannot represent the entry.
    """
    made: dict[str, Any] = {}
    if entry.is_param is not None:
        made["type"] = int(TensorKind.STATIC if entry.is_param else TensorKind.NATIVE)
    if entry.kind == "float":
        dtype = DType.FLOAT_16 if entry.bitwidth == 16 else DType.FLOAT_32
        undefined = int(DType.UNDEFINED)
        return made | {
            "data_type": int(dtype),
            "quant_params": {"definition": undefined, "encoding": undefined},
        }
    if entry.scales is None:
        raise NotHeldError("has no scale and offset")
    if entry.form.is_blocked:
        raise NotHeldError("has blocks")
    if entry.zero_point_shift is not None:
        raise NotHeldError("has a shift of the zero point")
    if entry.form is Form.PER_CHANNEL and entry.axis is None:
        raise NotHeldError(_NEEDS_MODEL)
    scheme = Scheme.SYMMETRIC if entry.is_stored_signed else Scheme.ASYMMETRIC
    dtype = storage_type(entry.bitwidth, scheme)
    return made | {"data_type": int(dtype), "quant_params": _quantization(entry, dtype)}


def _quantization(entry: TensorEncoding, dtype: DType) -> dict[str, Any]:
    narrow = entry.bitwidth < dtype.bits
    pairs = _pairs(entry)
    inner: dict[str, Any]
    if entry.form is Form.PER_TENSOR:
        kind = EncodingKind.BW_SCALE_OFFSET if narrow else EncodingKind.SCALE_OFFSET
        (inner,) = pairs
    else:
        kind = EncodingKind.BW_AXIS_SCALE_OFFSET if narrow else EncodingKind.AXIS_SCALE_OFFSET
        inner = {"axis": entry.axis, "num_scale_offsets": len(pairs), "scale_offsets": pairs}
        if narrow:
            inner["bitwidth"] = entry.bitwidth
    return {"definition": DEFINED, "encoding": int(kind), KEYS[kind]: inner}


def _pairs(entry: TensorEncoding) -> list[dict[str, Any]]:
    ranges = entry.grid_range
    if ranges is None or entry.scales is None:
        return []
    stored = _stored_offsets(entry)
    columns = (entry.scales, stored, *ranges)
    rows = zip(*(np.ravel(column).tolist() for column in columns), strict=True)
    symmetric = entry.is_stored_signed and not np.any(stored)
    common = {"bitwidth": entry.bitwidth, "is_symmetric": symmetric}
    keys = ("scale", "offset", "minimum", "maximum")
    return [common | dict(zip(keys, row, strict=True)) for row in rows]


def _expansion(entry: TensorEncoding, version: str) -> dict[str, Any]:
    narrow = entry.compressed_bitwidth or 0
    if entry.bitwidth != 2 * narrow or narrow not in (2, 4, 8, 16):
        raise NotHeldError(f"has blocks of {narrow} bits compressed from {entry.bitwidth}")
    if entry.scales is None or entry.block_scales is None or not entry.is_centered:
        raise NotHeldError("has blocks with factors and an offset")
    factors, scales = entry.block_scales.tolist(), entry.scales.tolist()
    made: dict[str, Any] = {"output_dtype": f"int{narrow}"}
    if version == "2.1.0":
        return made | {"y_scale": {"axis": entry.axis, "x": factors, "x_scale": scales}}
    return made | {"per_block_int_scale": factors, "per_channel_float_scale": scales}


def _stored_offsets(entry: TensorEncoding) -> Ints:
    """Return offsets on the grid of the stored type; 0 for a derived encoding."""
    if entry.offsets is None:
        return np.zeros((), np.int64)
    if entry.is_derived:
        return entry.offsets
    return entry.offsets - entry.center if entry.is_stored_signed else entry.offsets
