"""NumPy kernels by family, in modules named like the op set's; importing this registers them.

A kernel does as much as it can when its step is created and bound. A run is then a flat list of
NumPy calls on arrays that already exist.
"""

from dovetail_numpy.kernels import (  # noqa: F401 - registers their kernels
    activation,
    arrangement,
    blocks,
    convolution,
    elementwise,
    gather,
    integer_gru,
    integer_lstm,
    integer_norms,
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
from dovetail_numpy.kernels._registry import KERNELS

__all__ = ["KERNELS"]
