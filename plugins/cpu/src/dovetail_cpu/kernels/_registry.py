"""The registry of the kernels; the families fill it."""

from dovetail.runtime.plan import KernelRegistry

KERNELS = KernelRegistry("cpu")
PACKAGE = "qti.aisw"
