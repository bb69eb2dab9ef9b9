"""Quantization encodings: `real = (q + offset) * scale`, per tensor, axis, block or vector.

Encodings are immutable and compare by content. A layout change returns a new encoding or raises
(`transposed`, `reshaped`). Source: spec/qnn_enums.md, "Quantization structures".
"""

from dovetail.ir.encodings._contract import Encoding, EncodingKind, Shape
from dovetail.ir.encodings._expansion import BlockwiseExpansion
from dovetail.ir.encodings._mapped import EncodingMapping, Mapped
from dovetail.ir.encodings._per_axis import AxisScaleOffset
from dovetail.ir.encodings._per_block import Block, FloatBlock
from dovetail.ir.encodings._per_tensor import ScaleOffset
from dovetail.ir.encodings._values import dequantize, quantize
from dovetail.ir.encodings._vector import Vector

__all__ = [
    "AxisScaleOffset",
    "Block",
    "BlockwiseExpansion",
    "Encoding",
    "EncodingKind",
    "EncodingMapping",
    "FloatBlock",
    "Mapped",
    "ScaleOffset",
    "Shape",
    "Vector",
    "dequantize",
    "quantize",
]
