"""The CPU backend of Dovetail, on oneDNN and NumPy.

An op package provides kernels for it through the entry point `cpu:PACKAGE` of the group
`dovetail.kernels`.
"""

from dovetail_cpu._backend import CpuBackend, CpuOptions, MemoryPlan, Quantized
from dovetail_onednn import EngineChoice

__all__ = ["CpuBackend", "CpuOptions", "EngineChoice", "MemoryPlan", "Quantized"]
