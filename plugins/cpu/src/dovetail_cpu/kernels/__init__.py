"""The NumPy kernels by family, named like the op set's; importing this registers all of them.

A kernel prepares all it can when it is made and when it is bound: what runs is a flat list of NumPy
calls on arrays that exist already.
"""

from dovetail_cpu.kernels import (  # noqa: F401 - registers their kernels
    activation,
    arrangement,
    blocks,
    convolution,
    elementwise,
    gather,
    layout,
    local_response,
    logic,
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
)
from dovetail_cpu.kernels._registry import KERNELS

__all__ = ["KERNELS"]
