"""The registry of this package's kernels."""

from __future__ import annotations

from dovetail.runtime.plan import KernelRegistry

# fixed-point tensors are real numbers on a device: no node runs on integers, and all can be fused
KERNELS = KernelRegistry("gpu", on_integers=lambda _: False)
