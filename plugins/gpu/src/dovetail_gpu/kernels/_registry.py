"""The registry of this package's kernels."""

from __future__ import annotations

from dovetail.runtime.plan import KernelRegistry
from dovetail_opset import PACKAGE as _PACKAGE

PACKAGE = _PACKAGE.name
KERNELS = KernelRegistry("gpu")
