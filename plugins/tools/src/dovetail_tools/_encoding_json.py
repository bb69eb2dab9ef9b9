"""Encodings as JSON, with the member names of QNN's structures.

Source: spec/qnn_enums.md, "Quantization structures".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import Array, AxisScaleOffset, Encoding, ScaleOffset


def quantize_params(encoding: Encoding | None) -> dict[str, Any]:
    """Return the quantization parameters of a tensor; the values of common encodings only."""
    if encoding is None:
        return {
            "definition": "QNN_DEFINITION_UNDEFINED",
            "quantizationEncoding": "QNN_QUANTIZATION_ENCODING_UNDEFINED",
        }
    found: dict[str, Any] = {
        "definition": "QNN_DEFINITION_DEFINED",
        "quantizationEncoding": f"QNN_QUANTIZATION_ENCODING_{encoding.kind.name}",
    }
    if isinstance(encoding, ScaleOffset):
        pair = {"scale": encoding.scale, "offset": encoding.offset}
        if encoding.bitwidth is None:
            return found | {"scaleOffset": pair}
        return found | {"bwScaleOffset": {"bitwidth": encoding.bitwidth, **pair}}
    if isinstance(encoding, AxisScaleOffset):
        return found | _axis(encoding)
    return found


def _axis(encoding: AxisScaleOffset) -> dict[str, Any]:
    scales: list[float] = encoding.scales.tolist()
    offsets: list[int] = _offsets(encoding).tolist()
    if encoding.bitwidth is None:
        pairs = [{"scale": s, "offset": o} for s, o in zip(scales, offsets, strict=True)]
        own = {"axis": encoding.axis, "numScaleOffsets": len(pairs), "scaleOffset": pairs}
        return {"axisScaleOffset": own}
    own = {
        "bitwidth": encoding.bitwidth,
        "axis": encoding.axis,
        "numElements": len(scales),
        "scales": scales,
        "offsets": offsets,
    }
    return {"bwAxisScaleOffset": own}


def _offsets(encoding: AxisScaleOffset) -> Array:
    if encoding.offsets is None:
        return np.zeros_like(encoding.scales, np.int32)
    return encoding.offsets
