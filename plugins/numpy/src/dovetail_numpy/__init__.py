"""NumPy engines: kernels for real values and stored integers, and the definition of the latter.

`KERNELS` are the kernels for the standard op set, a library for CPU-side backends; they are
imported at the first use. Quantized nodes without a kernel of their own run by their definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail_numpy.registry import KERNELS

__all__ = ["KERNELS"]


def __getattr__(name: str) -> Any:
    if name == "KERNELS":
        from dovetail_numpy.registry import KERNELS

        return KERNELS
    raise AttributeError(f"module 'dovetail_numpy' has no attribute '{name}'")
