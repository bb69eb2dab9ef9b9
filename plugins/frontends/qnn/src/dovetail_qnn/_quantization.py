"""The object `quant_params` of a tensor, and encodings.

Source: docs/qnn_formats.md, "Quantization".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from dovetail.container.entries import EncodingEntry, dump_encoding
from dovetail.errors import FrontendError
from dovetail.ir import AxisScaleOffset, DType, Encoding, EncodingKind, ScaleOffset
from dovetail_qnn._extras import KEY, read_entry

UNDEFINED = 0x7FFFFFFF
DEFINED = 1
# The kinds whose keys are established; others are written as extras.
_KEYS: Mapping[int, str] = {
    EncodingKind.SCALE_OFFSET: "scale_offset",
    EncodingKind.AXIS_SCALE_OFFSET: "axis_scale_offset",
    EncodingKind.BW_SCALE_OFFSET: "bw_scale_offset",
}


class ScaleOffsetJson(msgspec.Struct):
    """A scale and an offset; `bitwidth` counts only in `bw_scale_offset`."""

    scale: float = 0.0
    offset: int = 0
    bitwidth: int = 0


class AxisJson(msgspec.Struct):
    """Scales and offsets along an axis."""

    axis: int
    scale_offsets: list[ScaleOffsetJson]


class QuantJson(msgspec.Struct):
    """The object `quant_params`."""

    definition: int = UNDEFINED
    encoding: int = UNDEFINED
    scale_offset: ScaleOffsetJson | None = None
    axis_scale_offset: AxisJson | None = None
    bw_scale_offset: ScaleOffsetJson | None = None
    dovetail: EncodingEntry | None = None  # of a kind whose keys are not established


def read_quantization(given: QuantJson) -> Encoding | None:
    """Return the encoding that an object describes; None if it is undefined.

    Raises:
        FrontendError: It is incomplete, or its kind has no established keys.
        ContainerError: An encoding under our own key has arrays that do not match.
    """
    if given.definition != DEFINED:
        return None
    if given.dovetail is not None:
        return read_entry(given.dovetail, "quant_params")
    try:
        kind = EncodingKind(given.encoding)
    except ValueError:
        raise FrontendError(f"unknown quantization encoding {given.encoding}") from None
    if kind not in _KEYS:
        raise FrontendError(
            f"the form of the encoding {kind.name} in this format is not known",
            hint="convert the model that the file was made from",
        )
    found = getattr(given, _KEYS[kind])
    if found is None:
        raise FrontendError(f"the encoding {kind.name} lacks `{_KEYS[kind]}`")
    if isinstance(found, AxisJson):
        scales = [float(each.scale) for each in found.scale_offsets]
        offsets = [each.offset for each in found.scale_offsets]
        if not all(-(2**31) <= offset < 2**31 for offset in offsets):
            raise FrontendError("an offset does not fit 32 bits")
        with np.errstate(over="ignore"):  # infinite scales are faults of the tensor
            return AxisScaleOffset(
                found.axis,
                np.array(scales, np.float64).astype(np.float32),
                np.array(offsets, np.int32),
            )
    narrow = kind is EncodingKind.BW_SCALE_OFFSET
    return ScaleOffset(found.scale, found.offset, found.bitwidth if narrow else None)


def dump_quantization(encoding: Encoding | None, dtype: DType) -> dict[str, Any]:
    """Return the object for an encoding; under our own key if its kind has no established keys."""
    if encoding is None:
        return _object(UNDEFINED, UNDEFINED, "scale_offset", _scale_offset(0.0, 0, 0, (0, 0)))
    span = dtype.stored_range(encoding.bitwidth)
    bits = encoding.bitwidth or dtype.bits
    inner: dict[str, Any]
    if isinstance(encoding, ScaleOffset):
        inner = _scale_offset(encoding.scale, encoding.offset, bits, span)
    elif isinstance(encoding, AxisScaleOffset) and encoding.kind in _KEYS:
        scales = np.asarray(encoding.scales, np.float32).tolist()
        offsets = np.zeros(len(scales)) if encoding.offsets is None else encoding.offsets
        inner = {
            "axis": encoding.axis,
            "num_scale_offsets": len(scales),
            "scale_offsets": [
                _scale_offset(scale, int(offset), bits, span)
                for scale, offset in zip(scales, offsets, strict=True)
            ],
        }
    else:
        return _object(DEFINED, int(encoding.kind), KEY, dump_encoding(encoding, None, ""))
    return _object(DEFINED, int(encoding.kind), _KEYS[encoding.kind], inner)


def is_described(encoding: Encoding | None) -> bool:
    """Return whether `quant_params` describes an encoding, or whether our own key does."""
    return encoding is None or encoding.kind in _KEYS


def _object(definition: int, kind: int, key: str, inner: Any) -> dict[str, Any]:
    return {"definition": definition, "encoding": kind, "is_overridden": False, key: inner}


def _scale_offset(scale: float, offset: int, bits: int, span: tuple[int, int]) -> dict[str, Any]:
    low, high = span
    return {
        "bitwidth": bits,
        "minimum": (low + offset) * scale,
        "maximum": (high + offset) * scale,
        "scale": scale,
        "offset": offset,
        "is_symmetric": low < 0 and offset == 0,
        "is_fixed_point": bits > 0,
    }
