"""The importers of ONNX Runtime's own operators, the domain com.microsoft, by family."""

from dovetail_onnx.operators.microsoft import (
    activation,
    attention,
    blocks,
    convolution,
    embedding,
    grouped_query,
    matrix,
    multi_head,
    normalization,
    quantization,
    quantized,
    rotary,
)
from dovetail_onnx.operators.microsoft._table import MICROSOFT

FAMILIES = (
    activation,
    attention,
    blocks,
    convolution,
    embedding,
    grouped_query,
    matrix,
    multi_head,
    normalization,
    quantization,
    quantized,
    rotary,
)

__all__ = ["FAMILIES", "MICROSOFT"]
