"""Op cases of the standard op set, for `dovetail.testing`: inputs, params and the answer.

An answer is plain NumPy, written out without the op's own code. One module a family of ops, as in
`dovetail_opset.ops`.
"""

from dovetail.testing import OpCase
from dovetail_opset.testing import (
    activation,
    convolution,
    detection,
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
    resize,
    slicing,
    softmax,
    transform,
    types,
    unary,
)

CASES: tuple[OpCase, ...] = (
    *activation.CASES,
    *convolution.CASES,
    *detection.CASES,
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
    *resize.CASES,
    *slicing.CASES,
    *softmax.CASES,
    *transform.CASES,
    *types.CASES,
    *unary.CASES,
)

__all__ = ["CASES"]
