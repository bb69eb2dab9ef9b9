"""Kernels of the standard op set."""

from __future__ import annotations

import functools

from dovetail.runtime.plan import KernelRegistry


@functools.cache
def kernels() -> KernelRegistry:
    """Return the kernels of all families."""
    from dovetail_gpu.kernels import convolution, elementwise
    from dovetail_gpu.kernels._registry import KERNELS

    del convolution, elementwise  # imported for its registrations
    return KERNELS
