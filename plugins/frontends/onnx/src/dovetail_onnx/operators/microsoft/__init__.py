"""The importers of ONNX Runtime's own operators, the domain com.microsoft, by family."""

from dovetail_onnx.operators.microsoft import (  # noqa: F401 - registers their importers
    activation,
    attention,
    channels_last,
    convolution,
    decoder_masked,
    dropout,
    embedding,
    gathered_blocks,
    grouped_query,
    matmul_nbits,
    matrix,
    multi_head,
    normalization,
    quantization,
    quantized,
    recurrent,
    rotary,
)
from dovetail_onnx.operators.microsoft._table import MICROSOFT

__all__ = ["MICROSOFT"]
