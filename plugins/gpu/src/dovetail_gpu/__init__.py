"""The GPU backend of Dovetail, on OpenCL.

An op package provides kernels for it through the entry point `gpu:PACKAGE` of the group
`dovetail.kernels`: functions of a `KernelCall` that return `launch(call, ...)`.
"""

from dovetail_gpu._backend import GpuBackend
from dovetail_gpu.elements import Element
from dovetail_gpu.launching import Argument, Launch, launch, launch_all
from dovetail_gpu.layouts import element_of, layout_for, read, write
from dovetail_gpu.options import GpuOptions
from dovetail_gpu.programs import Source, type_lines

__all__ = [
    "Argument",
    "Element",
    "GpuBackend",
    "GpuOptions",
    "Launch",
    "Source",
    "element_of",
    "launch",
    "launch_all",
    "layout_for",
    "read",
    "type_lines",
    "write",
]
