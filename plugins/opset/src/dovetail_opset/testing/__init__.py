"""Op cases of the standard op set for `dovetail.testing`: inputs, params, expected outputs.

An expected output is plain NumPy, written without the op's own code. There is one module per family
of ops, as in `dovetail_opset.ops`.
"""

from dovetail.testing import OpCase
from dovetail_opset.testing import (
    activation,
    convolution,
    elementwise,
    gather,
    image,
    layout,
    matrix,
    normalization,
    pooling,
    ranking,
    recurrent,
    reduction,
    regions,
    resize,
    slicing,
    softmax,
    suppression,
    transform,
    types,
    unary,
)

CASES: tuple[OpCase, ...] = (
    *activation.CASES,
    *convolution.CASES,
    *elementwise.CASES,
    *gather.CASES,
    *image.CASES,
    *layout.CASES,
    *matrix.CASES,
    *normalization.CASES,
    *pooling.CASES,
    *ranking.CASES,
    *recurrent.CASES,
    *reduction.CASES,
    *regions.CASES,
    *resize.CASES,
    *slicing.CASES,
    *softmax.CASES,
    *suppression.CASES,
    *transform.CASES,
    *types.CASES,
    *unary.CASES,
)

__all__ = ["CASES"]
