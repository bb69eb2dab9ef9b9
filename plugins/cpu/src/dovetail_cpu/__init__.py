"""The float CPU backend of Dovetail, on oneDNN and NumPy.

`CpuBackend` is the backend, `KERNELS` its NumPy kernels for the standard op set. An op
package provides kernels through the entry point `cpu:PACKAGE` of the group `dovetail.kernels`.
"""

from dovetail_cpu._backend import CpuBackend, CpuOptions, MemoryPlan
from dovetail_cpu._engine import EngineChoice
from dovetail_cpu.kernels import KERNELS

__all__ = ["KERNELS", "CpuBackend", "CpuOptions", "EngineChoice", "MemoryPlan"]
