"""The importers of ONNX's own operators, by family; importing this registers all of them.

Those of ONNX Runtime's own operators are in `microsoft`; `aten`, `openvino` and `qonnx` have
what tools for quantization add.
"""

from dovetail_onnx.operators import (  # noqa: F401 - registers their importers
    activation,
    arrangement,
    aten,
    bits,
    blocks,
    classical,
    columns,
    constant,
    convolution,
    deformed,
    detection,
    determinant,
    dynamic_quantization,
    einsum,
    elementwise,
    experimental,
    fourier,
    gather,
    logic,
    matrix,
    normalization,
    openvino,
    padding,
    pooling,
    qonnx,
    quantization,
    random,
    ranking,
    recurrent,
    reduction,
    resize,
    running,
    sampling,
    scatter,
    shape,
    signal,
    simple_recurrent,
    slicing,
    softmax,
    special,
    transposed,
    trigonometry,
    types,
    unpooling,
    vectorizer,
)
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators.aten import ATEN
from dovetail_onnx.operators.classical import CLASSICAL
from dovetail_onnx.operators.microsoft import MICROSOFT
from dovetail_onnx.operators.openvino import OPENVINO
from dovetail_onnx.operators.qonnx import BREVITAS, QONNX

__all__ = ["ATEN", "BREVITAS", "CLASSICAL", "MICROSOFT", "ONNX", "OPENVINO", "QONNX"]
