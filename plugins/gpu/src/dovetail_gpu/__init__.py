"""The GPU backend of Dovetail, on OpenCL.

An op package provides kernels for it through the entry point `gpu:PACKAGE` of the group
`dovetail.kernels`: functions of a `KernelCall` that return `launch(call, ...)`.
"""

from dovetail_gpu._backend import GpuBackend
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import read, write
from dovetail_gpu.options import GpuOptions
from dovetail_gpu.programs import Source

__all__ = ["Argument", "GpuBackend", "GpuOptions", "Source", "launch", "read", "write"]
