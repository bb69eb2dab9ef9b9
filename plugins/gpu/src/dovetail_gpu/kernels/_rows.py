"""Helpers of kernels that reduce: which calls they take, and how many items share a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu import layouts
from dovetail_gpu.elements import Element
from dovetail_gpu.engine import current
from dovetail_gpu.launching import Argument, Launch
from dovetail_gpu.layouts import write
from dovetail_gpu.programs import Source
from dovetail_gpu.stages import Stages, StageWriter

VECTOR = 8  # elements that one item reads at once
LANES = {True: 1, False: 64}  # items that share a row, on processors and on others


def is_real(spec: Spec | None) -> bool:
    """Return whether a tensor is omitted, or stored as real numbers."""
    return spec is None or layouts.is_real(spec)


def are_real(call: KernelCall, outputs: int | None = None) -> bool:
    """Return whether the inputs and outputs of a call's head are stored as real numbers.

    Args:
        call: The call.
        outputs: How many of the outputs; by default all.
    """
    return all(map(is_real, (*call.head.ins, *call.head.outs[:outputs])))


def axes_of(param: Any) -> tuple[int, ...]:
    """Return a param of axes."""
    return tuple(int(a) for a in np.asarray(param).reshape(-1))


def lanes() -> int:
    """Return the number of work items that share a row, a power of two."""
    return LANES[current().engine.device.is_cpu]


def row_launch(source: Source, function: str, arguments: Sequence[Argument], rows: int) -> Launch:
    """Return the launch of a function with one work group for each row."""
    return Launch(source, function, arguments, (rows * lanes(),), (lanes(),))


def written_with_stages(call: KernelCall, element: Element) -> tuple[Value, Stages]:
    """Declare the result of a call, and return it with the stages of fused nodes."""
    writer = StageWriter(call, element)
    writer.add_fused()
    stages = writer.finished()
    return write(call), stages
