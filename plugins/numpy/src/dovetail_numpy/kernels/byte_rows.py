"""Stored bytes as rows, a block at a time, for softmax and norms.

The numbers of these kernels are those of the definition, in float32. Where rounding them may give
another integer than the definition's float64, it is computed as there; see `NearTies`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, ScaleOffset
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels._calls import Call, block_size, blocks

BYTE = 1 << 8
# Elements of a row that several positions share: NumPy adds long rows in half the time, and
# oneDNN starts anew at each row.
LONGEST_ROW = 1024
_FARTHEST_ZERO = 255


def are_bytes(view: NodeView) -> bool:
    """Return whether data and result are 8-bit with usual zero points, and not empty."""
    return DEFINITIONS.of(view) is not None and all(
        spec is not None
        and spec.dtype.is_fixed_point
        and spec.dtype.bits == 8
        and isinstance(spec.encoding, ScaleOffset)
        and spec.encoding.scale > 0
        and abs(spec.encoding.offset) <= _FARTHEST_ZERO
        and 0 not in spec.shape
        for spec in (view.ins[0], view.outs[0])
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor of bytes as rows, and its result.

    Attributes:
        x, out: Values of the plan.
        pad: Scratchpad of two float32 for each element of a block.
        count: Number of rows.
        size: Elements of a row.
        most: Rows of a block.
        after: Elements between two of a row in the tensor.
        turned: Scratchpad for the rows and those of the result, if they are apart there.
    """

    x: Value
    out: Value
    pad: Value
    count: int
    size: int
    most: int
    after: int
    turned: Value | None

    @classmethod
    def of(cls, call: KernelCall, size: int, after: int = 1) -> Rows:
        """Declare the first input, the output and the scratchpads of a call."""
        total = math.prod(call.spec(0).shape)
        most = min(max(1, block_size(total) // size), total // size)
        pad = call.scratch(2 * 4 * most * size)
        turned = call.scratch(2 * total) if after > 1 else None
        return cls(call.read(0), call.write(), pad, total // size, size, most, after, turned)

    def arrays(self, buffers: Buffers) -> tuple[Array, Array, Array]:
        """Return stored rows, those of the result, and scratchpads (2, most, size), float32."""
        stored, out = buffers.array(self.x), buffers.array(self.out)
        if self.turned is not None:
            parts = np.split(buffers.array(self.turned), 2)
            stored, out = parts[0].view(stored.dtype), parts[1].view(out.dtype)
        pads = buffers.array(self.pad).view(np.float32).reshape(2, self.most, self.size)
        shape = self.count, self.size
        return stored.reshape(shape), out.reshape(shape), pads

    def moves(self, buffers: Buffers) -> tuple[list[Call], list[Call]]:
        """Return the calls that turn the tensor to rows, and those of the result back."""
        if self.turned is None:
            return [], []
        columns, results = (
            buffers.array(value).reshape(-1, self.size, self.after).swapaxes(1, 2)
            for value in (self.x, self.out)
        )
        stored, out, _ = self.arrays(buffers)
        return (
            [functools.partial(np.copyto, stored.reshape(columns.shape), columns)],
            [functools.partial(np.copyto, results, out.reshape(columns.shape))],
        )


@functools.cache
def divisor(count: int, most: int) -> int:
    """Return the largest divisor of a number up to another one."""
    return next(n for n in range(min(most, count), 0, -1) if count % n == 0)


def positions_per_row(positions: int, width: int, most: int = LONGEST_ROW) -> int:
    """Return how many positions to join to a row: a divisor of their number, at least 1.

    Args:
        positions: Number of positions.
        width: Elements of a position.
        most: Elements of the longest row.
    """
    return divisor(positions, max(1, most // width))


def by_block(rows: Rows, run: Callable[[slice], None]) -> list[Call]:
    """Return the calls that run a function for each block of rows."""
    return [functools.partial(run, block) for block in blocks(rows.count, rows.most)]


def quiet(calls: Sequence[Call]) -> Bound:
    """Return a call of several, which may divide by 0 and exceed float32."""

    def run_all() -> None:
        # infinities saturate, and what is no number is computed exactly
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for call in calls:
                call()

    return run_all
