"""The kernel registry, which the modules of this package fill."""

from dovetail.runtime.plan import KernelRegistry

KERNELS = KernelRegistry("numpy")
