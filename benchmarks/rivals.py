"""Backends that compete with `cpu` in measurements of `auto`: the same with other settings.

On a machine without a GPU, `auto` would have nothing to choose from. None of these is the fastest
on all networks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import msgspec

from dovetail.ops import OpRegistry
from dovetail.plugins import refresh
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_onednn import EngineChoice


class PlainCpu(CpuBackend):
    """The backend `cpu` on NumPy alone."""

    name: ClassVar[str] = "plain"

    def __init__(self, ops: OpRegistry, options: CpuOptions) -> None:
        super().__init__(ops, msgspec.structs.replace(options, engine=EngineChoice.NUMPY))


class SingleCpu(CpuBackend):
    """The backend `cpu` in one thread."""

    name: ClassVar[str] = "single"

    def __init__(self, ops: OpRegistry, options: CpuOptions) -> None:
        super().__init__(ops, msgspec.structs.replace(options, num_threads=1))


def install(folder: Path) -> None:
    """Install the rivals for this process.

    Args:
        folder: Where their dist is written.
    """
    info = folder / "rivals-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rivals\nVersion: 1.0\n")
    points = [f"{c.name} = benchmarks.rivals:{c.__name__}" for c in (PlainCpu, SingleCpu)]
    (info / "entry_points.txt").write_text("\n".join(["[dovetail.backends]", *points]) + "\n")
    sys.path.append(str(folder))
    refresh()
