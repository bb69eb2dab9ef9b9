"""Softmax and normalizations of stored bytes, a block of rows at a time.

The numbers are those of the definition, in float32. Where rounding them may give another integer
than the definition's float64, it is computed as there; see `NearTies`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, ScaleOffset
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.functions import exp, log
from dovetail_numpy.integer.norms import mean_and_variance, power_table, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._calls import Call, Floats, block_size, blocks
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE
from dovetail_numpy.kernels.near_ties import NearTies
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.row_roots import RowRoots

_ULP = 2.0**-24  # a float32 operation is off by at most so much, relative to its result
_LARGEST = 512.0  # more than a result of 8 bits and its zero point
_FARTHEST_ZERO = 255
BYTE = 1 << 8
_PART = 32  # elements that are added in float32
_MOST_SUMS = 1 << 19  # entries of a table by sum of squares: 4 MB in float64
_MOST_FACTOR = 2.0**100  # levels times these are no infinities
_MOST_ERROR = 0.05  # a tenth of the elements would be computed exactly
_EXACT = 1 << 24  # float32 has all whole numbers up to this one


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


@KERNELS.register(PACKAGE, "Softmax", quantized=True)
def softmax(call: KernelCall) -> Step | None:
    """Run Softmax; columns are moved to rows and back."""
    view, shape, op = call.head, call.spec(0).shape, call.op
    if not are_bytes(view) or not shape:
        return wide_norms.softmax(call)
    size, after = shape[op.axis], math.prod(shape[op.axis + 1 :])
    rows, (out,) = Rows.of(call, size, after), view.outs
    powers = power_table(abs(single(op.beta)) * scale_of(call.spec(0)), BYTE)
    step, zero, limits = grid_of(out)
    part = divisor(size, _PART)
    # powers, sums, the reciprocal, product and sum with the zero point are rounded
    near = NearTies(step, zero, limits, 2 * _ULP * _LARGEST, (part + 12) * _ULP)
    approximate, shift = powers.astype(np.float32), np.float32(zero)
    bytes_pad = call.scratch(rows.most * rows.size)
    farthest = np.maximum if op.beta >= 0 else np.minimum

    def bind(buffers: Buffers) -> Bound:
        stored, result, (v, spare) = rows.arrays(buffers)
        distances = buffers.array(bytes_pad).reshape(rows.most, rows.size)

        def run(block: slice) -> None:
            q, into = stored[block], result[block]
            d, p = distances[: len(q)], v[: len(q)]
            first = farthest.reduce(q, axis=1, keepdims=True)
            bits = first.view(np.uint8), q.view(np.uint8)
            # modulo 256, in which differences of signed bytes are right as well
            np.subtract(*(bits if farthest is np.maximum else bits[::-1]), out=d)
            approximate.take(d, None, p, "wrap")
            parts = np.einsum("rpi->rp", p.reshape(len(q), -1, part))
            total = np.add.reduce(parts, axis=1, dtype=np.float64)
            np.multiply(p, (1.0 / (total * step)).astype(np.float32)[:, None], p)
            if zero:
                np.add(p, shift, p)

            def exact(at: NDArray[np.intp]) -> Array:
                totals = powers[d[at // rows.size]].sum(1, dtype=np.int64)
                return np.asarray(powers[d.reshape(-1)[at]] / totals)

            near.store(p, into, spare[: len(q)], exact)

        before, behind = rows.moves(buffers)
        return quiet([*before, *by_block(rows, run), *behind])

    return call.step(bind)


@KERNELS.register(PACKAGE, "LayerNorm", quantized=True)
def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm along the last axes, with constant factors."""
    roots, factors = RowRoots.of(call), NormFactors.of(call)
    if not are_bytes(call.head) or roots is None or factors is None:
        return wide_norms.row_norm(call)
    size = roots.size
    numbers = NormNumbers.of(call.head, factors, size, size) if size * BYTE < _EXACT else None
    if numbers is None:
        return wide_norms.row_norm(call)
    norm, rows = _LayerNorm(numbers, divisor(size, BYTE)), Rows.of(call, size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v, spare = (pad[: len(q)] for pad in pads)
            norm.run(q, result[block], v, spare)

        return quiet(by_block(rows, run))

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class NormNumbers:
    """The numbers of a normalization.

    Attributes:
        epsilon: In squares of levels.
        factors: Gamma and beta.
        factor, offset: The same in steps of the result, float32.
        near: The rounding.
    """

    epsilon: float
    factors: NormFactors
    factor: Floats
    offset: Floats
    near: NearTies

    @classmethod
    def of(cls, view: NodeView, factors: NormFactors, width: int, count: int) -> NormNumbers | None:
        """Return the numbers; None if rounding errors would matter too often.

        Args:
            view: The node.
            factors: Its gamma and beta.
            width: Elements of a row, each with its gamma and beta.
            count: Elements with one mean.
        """
        spec, (out,) = view.ins[0], view.outs
        if spec is None:
            raise AssertionError(f"{view.node.where} lacks its data")
        scale, (step, zero, limits) = scale_of(spec), grid_of(out)
        factor, offset = factors.in_steps(step, width)
        # a deviation over the root of the variance is at most the root of their number
        reach = math.sqrt(count) * np.abs(factor).max() + np.abs(offset + zero).max() + _LARGEST
        error = 12 * _ULP * float(reach)
        if not error < _MOST_ERROR:
            return None
        return cls(
            single(view.op.epsilon) / (scale * scale),
            factors,
            factor.astype(np.float32),
            (offset + zero).astype(np.float32),
            NearTies(step, zero, limits, error),
        )

    def root(self, variance: Array) -> Array:
        """Return the divisors of deviations with these variances."""
        root = np.sqrt(variance + self.epsilon)
        return np.where(root == 0, 1.0, root)


@dataclass(frozen=True, slots=True)
class _LayerNorm:
    """The numbers of a LayerNorm.

    Attributes:
        norm: Those that it shares with others.
        part: Elements of a row whose squares have an exact sum in float32.
    """

    norm: NormNumbers
    part: int

    def run(self, q: Array, out: Array, v: Floats, spare: Floats) -> None:
        """Normalize rows of stored integers."""
        size, norm = q.shape[1], self.norm
        np.copyto(v, q)
        parts = v.reshape(len(q), -1, self.part)
        squares = np.einsum("rpi,rpi->rp", parts, parts).astype(np.int64).sum(1)
        # of stored integers: zero points cancel
        floor, share, variance = mean_and_variance(
            np.einsum("ri->r", v).astype(np.int64), squares, size
        )
        root = norm.root(variance)
        np.subtract(v, floor.astype(np.float32)[:, None], v)
        np.subtract(v, share.astype(np.float32)[:, None], v)
        np.multiply(v, (1.0 / root).astype(np.float32)[:, None], v)
        np.multiply(v, norm.factor, v)
        np.add(v, norm.offset, v)

        def exact(at: NDArray[np.intp]) -> Array:
            row, column = np.divmod(at, size)
            above = q.reshape(-1)[at].astype(np.int64) - floor[row]
            return norm.factors.applied((above - share[row]) / root[row], column)

        norm.near.store(v, out, spare, exact)


@KERNELS.register(PACKAGE, "Lrn", quantized=True)
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
        near = NearTies(step, shift, limits, 2 * _ULP * _LARGEST, 8 * _ULP)
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


def divisor(count: int, most: int) -> int:
    """Return the largest divisor of a number up to another one."""
    return next(n for n in range(min(most, count), 0, -1) if count % n == 0)


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
