"""The importers of ONNX's own operators, by family; importing this registers all of them."""

from dovetail_onnx.operators import (
    activation,
    constant,
    convolution,
    elementwise,
    gather,
    matrix,
    normalization,
    padding,
    pooling,
    reduction,
    shape,
    slicing,
    softmax,
    types,
)
from dovetail_onnx.operators._table import ONNX

FAMILIES = (
    activation,
    constant,
    convolution,
    elementwise,
    gather,
    matrix,
    normalization,
    padding,
    pooling,
    reduction,
    shape,
    slicing,
    softmax,
    types,
)

__all__ = ["FAMILIES", "ONNX"]
