"""NumPy engines: kernels for real values and stored integers, and the definition of the latter.

`KERNELS` are the kernels for the standard op set, a library for CPU-side backends. Quantized nodes
without a kernel of their own run by their definition.
"""

from dovetail_numpy.integer.steps import BY_DEFINITION
from dovetail_numpy.kernels import KERNELS as _OWN

KERNELS = _OWN.with_fallback(BY_DEFINITION)

__all__ = ["KERNELS"]
