"""The ops by family; importing this registers all of them in `dovetail_opset.PACKAGE`."""

from dovetail_opset.ops import (
    activation,
    convolution,
    elementwise,
    gather,
    layout,
    matrix,
    normalization,
    pooling,
    reduction,
    slicing,
    types,
    unary,
)

FAMILIES = (
    activation,
    convolution,
    elementwise,
    gather,
    layout,
    matrix,
    normalization,
    pooling,
    reduction,
    slicing,
    types,
    unary,
)

__all__ = ["FAMILIES"]
