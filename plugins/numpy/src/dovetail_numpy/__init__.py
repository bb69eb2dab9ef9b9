"""NumPy engines: kernels for real values and stored integers, and the definition of the latter.

`KERNELS` are the kernels for the standard op set, a library for CPU-side backends; they are
imported at the first use. Quantized nodes without a kernel of their own run by their definition.
"""

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names

if TYPE_CHECKING:
    from dovetail_numpy.registry import KERNELS
else:
    __getattr__ = lazy_names(__name__, {"dovetail_numpy.registry": ["KERNELS"]})

__all__ = ["KERNELS"]
