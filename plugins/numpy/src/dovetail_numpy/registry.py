"""All kernels: importing this registers them."""

from dovetail_numpy.integer.steps import BY_DEFINITION
from dovetail_numpy.kernels import (  # noqa: F401 - registers their kernels
    _registry,
    activation,
    arrangement,
    blocks,
    convolution,
    elementwise,
    gather,
    integer_gru,
    integer_item_norms,
    integer_local_response,
    integer_lstm,
    integer_row_norms,
    integer_softmax,
    layout,
    local_response,
    logic,
    lookup,
    matrix,
    normalization,
    pooling,
    ranking,
    recurrent,
    reduction,
    resize,
    sampling,
    scatter,
    slicing,
    softmax,
    transposed,
    types,
    unary,
    wide_sums,
)

KERNELS = _registry.KERNELS.with_fallback(BY_DEFINITION)
