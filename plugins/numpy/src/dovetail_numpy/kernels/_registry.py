"""The kernel registry, which the modules of this package fill."""

from dovetail.runtime.plan import KernelRegistry
from dovetail_opset import PACKAGE as _PACKAGE

KERNELS = KernelRegistry("numpy")
PACKAGE = _PACKAGE.name
