"""Lrn of stored bytes across channels, a block of rows at a time; see `byte_rows`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.functions import exp, log
from dovetail_numpy.integer.norms import single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Floats
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import Rows, are_bytes, by_block, quiet
from dovetail_numpy.kernels.near_ties import LARGEST, ULP, NearTies
from dovetail_opset import STANDARD

_MOST_SUMS = 1 << 19  # entries of a table by sum of squares: 4 MB in float64
_MOST_FACTOR = 2.0**100  # levels times these are no infinities


@KERNELS.register(STANDARD, "Lrn", quantized=True)
def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels: a table of powers by sum of squares."""
    norm = _Lrn.of(call.head)
    if norm is None:
        return None
    rows = Rows.of(call, call.spec(0).shape[-1])
    approximate = call.constant(norm.factors.astype(np.float32))
    wide = rows.size + 2 * norm.radius
    sums_pad = call.scratch(2 * 4 * rows.most * wide)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)
        table = buffers.array(approximate)
        wide_pads = buffers.array(sums_pad).view(np.int32).reshape(2, rows.most, wide)

        def run(block: slice) -> None:
            q = stored[block]
            (v, spare), sums = (both[:, : len(q)] for both in (pads, wide_pads))
            norm.run(q, result[block], v, spare, sums, table)

        return quiet(by_block(rows, run))

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _Lrn:
    """The numbers of an Lrn across channels.

    Attributes:
        scale, zero: Of the data.
        radius: Elements of a window on each side of its own.
        powers: The divisor's reciprocal by sum of squared levels.
        factors: The same, times the data's scale in steps of the result.
        shift: The zero point of the result.
        near: The rounding.
    """

    scale: float
    zero: int
    radius: int
    powers: Array
    factors: Array
    shift: int
    near: NearTies

    @classmethod
    def of(cls, view: NodeView) -> _Lrn | None:
        """Return the numbers; None if types, axes or a large table are not supported."""
        spec, op = view.spec(0), view.op
        rank = len(spec.shape)
        if not are_bytes(view) or tuple(op.axes(rank)) != (rank - 1,):
            return None
        scale, zero, _ = grid_of(spec)
        low, high = spec.dtype.stored_range()
        radius = min(int(op.radius), spec.shape[-1] - 1)
        largest = max(abs(low - zero), abs(high - zero)) ** 2
        count = (2 * radius + 1) * largest + 1
        if count > _MOST_SUMS:
            return None
        alpha = single(op.alpha) * scale * scale
        powers = _lrn_powers(single(op.bias), alpha, single(op.beta), count)
        step, shift, limits = grid_of(view.outs[0])
        factors = powers * (scale / step)
        if not np.abs(factors).max() < _MOST_FACTOR:  # perhaps NaN
            return None
        near = NearTies(step, shift, limits, 2 * ULP * LARGEST, 8 * ULP)
        return cls(scale, zero, radius, powers, factors, shift, near)

    def run(
        self, q: Array, out: Array, v: Floats, levels: Floats, sums: Array, table: Floats
    ) -> None:
        """Normalize rows of stored integers.

        Args:
            q: The rows.
            out: Those of the result.
            v: Scratchpad of the same shape.
            levels: Another one.
            sums: Two scratchpads, int32, of rows with the radius on both sides.
            table: `factors` in float32.
        """
        squares, windows = sums
        size, radius = q.shape[1], self.radius
        # zeros between rows: sums of windows are then those of one long row
        squares[:, :radius] = 0
        squares[:, radius + size :] = 0
        inside = squares[:, radius : radius + size]
        np.subtract(q, self.zero, out=inside, dtype=np.int32)
        np.copyto(levels, inside)
        np.multiply(inside, inside, inside)
        _add_windows(squares.reshape(-1), windows.reshape(-1), 2 * radius + 1)
        total = windows[:, :size]
        table.take(total, None, v, "wrap")
        np.multiply(v, levels, v)
        if self.shift:
            np.add(v, np.float32(self.shift), v)

        def exact(at: NDArray[np.intp]) -> Array:
            above = q.reshape(-1)[at].astype(np.int64) - self.zero
            found = total[np.divmod(at, size)]
            return np.asarray(above * self.scale * self.powers[found])

        self.near.store(v, out, levels, exact)


def _add_windows(each: Array, sums: Array, width: int) -> None:
    """Write the sums of so many elements from each one on, but for the last ones."""
    count = each.size - width + 1
    np.copyto(sums[:count], each[:count])
    for first in range(1, width):
        np.add(sums[:count], each[first : first + count], sums[:count])


@functools.lru_cache(maxsize=8)
def _lrn_powers(bias: float, alpha: float, beta: float, count: int) -> Array:
    """Return `(bias + alpha * n) ** -beta` for each n below `count`, read-only."""
    powers = exp(-beta * log(bias + alpha * np.arange(count, dtype=np.int64)))
    powers.flags.writeable = False
    return powers
