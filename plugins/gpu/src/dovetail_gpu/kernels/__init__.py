"""Kernels of the standard op set."""

from __future__ import annotations

import functools

from dovetail.runtime.plan import KernelRegistry


@functools.cache
def kernels() -> KernelRegistry:
    """Return the kernels of all families."""
    from dovetail_gpu.kernels import elementwise, pooling, reduction, softmax
    from dovetail_gpu.kernels._registry import KERNELS

    del elementwise, pooling, reduction, softmax  # imported for its registrations
    return KERNELS
