"""The machine that measures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

# As Linux names them.
INSTRUCTION_SETS = (
    "avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
)  # fmt: skip
# The instructions that add products of 8-bit integers exactly.
EXACT_PRODUCTS = ("avx_vnni", "avx512_vnni", "amx_int8")
# Preloaded by tools/avx2; CPUID then denies these, which Linux's list does not show.
MASK = "masked_cpuid.so"
MASKED = ("avx512", "avx_vnni", "amx_")


def machine() -> dict[str, str]:
    """Return a description of this machine."""
    return {
        "processor": _processor(),
        "instruction sets": _instruction_sets(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def has_exact_products() -> bool:
    """Return whether the processor adds products of 8-bit integers without saturation (VNNI)."""
    return not _flags().isdisjoint(EXACT_PRODUCTS)


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor()


def _instruction_sets() -> str:
    """Return the instruction sets that the engines' speed depends on, where they are known."""
    flags = _flags()
    return " ".join(flag for flag in INSTRUCTION_SETS if flag in flags) or "unknown"


def _flags() -> set[str]:
    """Return the instruction sets that CPUID reports to this process."""
    flags = _cpuinfo("flags").split()
    is_masked = Path(os.environ.get("LD_PRELOAD", "")).name == MASK
    return {flag for flag in flags if not (is_masked and flag.startswith(MASKED))}


def _cpuinfo(field_name: str) -> str:
    """Return a field of the first processor in Linux's list; empty elsewhere."""
    known = Path("/proc/cpuinfo")
    for line in known.read_text("utf-8").splitlines() if known.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == field_name:
            return value.strip()
    return ""
