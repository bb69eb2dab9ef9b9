"""Kernels of the standard op set."""

from __future__ import annotations

import functools
import importlib

from dovetail.runtime.plan import KernelRegistry
from dovetail_gpu.kernels._registry import KERNELS

_FAMILIES = (
    "color",
    "convolution",
    "depthwise",
    "detection",
    "elementwise",
    "indexing",
    "local_response",
    "matrix",
    "movement",
    "normalization",
    "padding",
    "pooling",
    "ranking",
    "recurrent",
    "reduction",
    "regions",
    "resize",
    "scatter",
    "shape",
    "softmax",
    "transposed",
)


@functools.cache
def kernels() -> KernelRegistry:
    """Return the kernels of all families, whose modules register them."""
    for family in _FAMILIES:
        importlib.import_module(f"dovetail_gpu.kernels.{family}")
    return KERNELS
