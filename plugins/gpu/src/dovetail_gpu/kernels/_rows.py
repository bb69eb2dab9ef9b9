"""Helpers of kernels that reduce: which calls they take, and how many items share a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.launching import GROUP, Argument, Launch, Size
from dovetail_gpu.layouts import all_real, write
from dovetail_gpu.programs import Source
from dovetail_gpu.stages import Stages, stages_of

LANES = {True: 1, False: 64}  # items that share a row, on processors and on others


def are_real(call: KernelCall, outputs: int | None = None) -> bool:
    """Return whether the inputs and outputs of a call's head are stored as real numbers.

    Args:
        call: The call.
        outputs: How many of the outputs; by default all.
    """
    return all_real((*call.head.ins, *call.head.outs[:outputs]))


def axes_of(param: Any) -> tuple[int, ...]:
    """Return a param of axes."""
    return tuple(int(a) for a in np.asarray(param).reshape(-1))


def lanes() -> int:
    """Return the number of work items that share a row, a power of two."""
    return LANES[current().engine.device.is_cpu]


def pixel_range(rows: int, width: int, channels: int) -> tuple[Size, Size]:
    """Return range and group of items, each of which computes `VECTOR` channels of a pixel."""
    blocks = -(-channels // VECTOR)
    across = min(GROUP, 1 << max(0, math.ceil(math.log2(max(1, blocks)))))
    return (blocks, width, rows), (across, GROUP // across, 1)


def row_launch(source: Source, function: str, arguments: Sequence[Argument], rows: int) -> Launch:
    """Return the launch of a function with one work group for each row."""
    return Launch(source, function, arguments, (rows * lanes(),), (lanes(),))


def written_with_stages(call: KernelCall, element: Element) -> tuple[Value, Stages]:
    """Declare the result of a call, and return it with the stages of fused nodes."""
    stages = stages_of(call, element)
    return write(call), stages
