"""The registry of this package's kernels."""

from __future__ import annotations

from dovetail.runtime.plan import KernelRegistry
from dovetail_opset import PACKAGE as _PACKAGE

PACKAGE = _PACKAGE.name
# fixed-point tensors are real numbers on a device: no node runs on integers, and all can be fused
KERNELS = KernelRegistry("gpu", on_integers=lambda _: False)
