"""NumPy engines: kernels for real values, and the definition of integer arithmetic.

`KERNELS` are the kernels for the standard op set, a library for CPU-side backends.
"""

from dovetail_numpy.integer import steps  # noqa: F401 - registers kernels for quantized nodes
from dovetail_numpy.kernels import KERNELS

__all__ = ["KERNELS"]
