"""Softmax and norms of tensors of up to 16 bits, a block at a time.

The operations and their order are those of the definition, in float64 on a scratchpad that stays in
the cache. Sums of integers, and of their squares, are exact in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_tabular
from dovetail_numpy.integer.norms import power_table, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import MOST_BLOCKS, Call, block_size, blocks
from dovetail_numpy.kernels.column_moments import column_moments
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.row_roots import RowRoots
from dovetail_numpy.kernels.wide import BLOCK

Doubles = NDArray[np.float64]
# Elements with one sum: sums of their squares, and of exponentials, are below 2**53.
_MOST = 1 << 18


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax, a block of rows or of columns at a time."""
    spec, op = call.spec(0), call.op
    if not spec.shape or not _is_supported(call.head, spec.shape[op.axis]):
        return None
    size, inner = spec.shape[op.axis], math.prod(spec.shape[op.axis + 1 :])
    shape = math.prod(spec.shape) // (size * inner), size, inner
    if inner > 1 and shape[0] > MOST_BLOCKS:
        return None
    count = shape[0] if inner == 1 else inner
    most = min(max(1, block_size(math.prod(shape), BLOCK) // size), count)
    x, out, pad = call.read(0), call.write(), call.scratch(8 * most * size)
    index = call.scratch(most * size * spec.dtype.storage.itemsize)
    bits, rounding = 8 * spec.dtype.storage.itemsize, _Rounding.of(call.head)
    powers = power_table(abs(single(op.beta)) * scale_of(spec), 1 << bits)
    entries = call.constant(powers.astype(np.float64))
    farthest = np.maximum if op.beta >= 0 else np.minimum

    def bind(buffers: Buffers) -> Bound:
        stored, result = (buffers.array(value).reshape(shape) for value in (x, out))
        bits_of = np.dtype(f"u{stored.itemsize}")
        distances, table = buffers.array(index).view(bits_of), buffers.array(entries)
        reals = buffers.array(pad).view(np.float64)

        def run(q: Array, into: Array, axis: int) -> None:
            v, d = reals[: q.size].reshape(q.shape), distances[: q.size].reshape(q.shape)
            first = farthest.reduce(q, axis=axis, keepdims=True)
            ends = first.view(bits_of), q.view(bits_of)
            # modulo the number of integers, in which differences of signed ones are right as well
            np.subtract(*(ends if farthest is np.maximum else ends[::-1]), out=d)
            table.take(d, None, v, "wrap")
            np.divide(v, np.add.reduce(v, axis=axis, keepdims=True), v)
            rounding.store(v, into)

        if inner == 1:
            rows, results = stored[:, :, 0], result[:, :, 0]
            calls = [partial(run, rows[at], results[at], 1) for at in blocks(shape[0], most)]
        else:
            pairs = list(zip(stored, result, strict=True))
            calls = [
                partial(run, item[:, at], into[:, at], 0)
                for item, into in pairs
                for at in blocks(inner, most)
            ]
        return call_sequence(calls)

    return call.step(bind)


def row_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm, RmsNorm or L2Norm along the last axes, with constant factors."""
    factors, roots = NormFactors.of(call), RowRoots.of(call)
    if factors is None or roots is None or not _is_supported(call.head, roots.size):
        return None
    rows = _Rows.of(call, roots.size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pad = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v = pad[: len(q)]
            sums = np.empty((2, len(q)))
            roots.add(q, v, sums)
            floor, share, root = roots.numbers(sums)
            if roots.has_mean:
                np.subtract(v, floor[:, None], v)
                np.subtract(v, share[:, None], v)
            np.divide(v, root[:, None], v)
            factors.apply(v)
            rows.rounding.store(v, result[block])

        return rows.bound(run)

    return call.step(bind)


def item_norm(call: KernelCall, groups: int) -> Step | None:
    """Run InstanceNorm or GroupNorm by mean and deviation, with constant factors."""
    factors, (items, *space, width) = NormFactors.of(call), call.spec(0).shape
    height, each = math.prod(space), width // groups
    if factors is None or not _is_supported(call.head, height * each):
        return None
    scale, rounding = scale_of(call.spec(0)), _Rounding.of(call.head)
    epsilon = single(call.op.epsilon) / (scale * scale)
    most = min(max(1, block_size(items * height * width, BLOCK) // width), height)
    x, out, scratch = call.read(0), call.write(), call.scratch(2 * 8 * most * width)

    def bind(buffers: Buffers) -> Bound:
        images, results = (buffers.array(v).reshape(items, height, width) for v in (x, out))
        pad, spare = buffers.array(scratch).view(np.float64).reshape(2, most, width)

        def run(image: Array, result: Array) -> None:
            floor, share, variance = column_moments(image, groups, pad, spare)
            root = np.sqrt(variance + epsilon)
            root[root == 0] = 1.0
            for block in blocks(height, most):
                v = pad[: block.stop - block.start]
                np.subtract(image[block], floor, v, dtype=np.float64)
                np.subtract(v, share, v)
                np.divide(v, root, v)
                factors.apply(v)
                rounding.store(v, result[block])

        return call_sequence(
            [partial(run, image, result) for image, result in zip(images, results, strict=True)]
        )

    return call.step(bind)


def _is_supported(view: NodeView, count: int) -> bool:
    """Return whether data and result are of up to 16 bits, with so many elements in a sum."""
    specs = view.ins[0], view.outs[0]
    is_known = DEFINITIONS.of(view) is not None and 0 < count <= _MOST
    return is_known and all(
        spec is not None and is_tabular(spec) and scale_of(spec) > 0 and 0 not in spec.shape
        for spec in specs
    )


@dataclass(frozen=True, slots=True)
class _Rounding:
    """The grid of a result."""

    step: float
    zero: float
    limits: tuple[int, int]

    @classmethod
    def of(cls, view: NodeView) -> _Rounding:
        """Return the grid of a node's result."""
        step, zero, limits = grid_of(view.outs[0])
        return cls(step, float(zero), limits)

    def store(self, real: Doubles, out: Array) -> None:
        """Write real values as stored integers; the values are overwritten."""
        np.divide(real, self.step, real)
        if self.zero:
            np.add(real, self.zero, real)
        np.rint(real, real)
        np.clip(real, *self.limits, out=real)
        np.copyto(out, real, casting="unsafe")


@dataclass(frozen=True, slots=True)
class _Rows:
    """A tensor as rows, its result, and a scratchpad for a block of them.

    Attributes:
        x, out, pad: Values of the plan.
        count, size: Number of rows, and elements of one.
        most: Rows of a block.
        rounding: That of the result.
    """

    x: Value
    out: Value
    pad: Value
    count: int
    size: int
    most: int
    rounding: _Rounding

    @classmethod
    def of(cls, call: KernelCall, size: int) -> _Rows:
        """Declare the first input, the output and the scratchpad of a call."""
        total = math.prod(call.spec(0).shape)
        most = min(max(1, block_size(total, BLOCK) // size), total // size)
        pad, rounding = call.scratch(8 * most * size), _Rounding.of(call.head)
        return cls(call.read(0), call.write(), pad, total // size, size, most, rounding)

    def arrays(self, buffers: Buffers) -> tuple[Array, Array, Doubles]:
        """Return stored rows, those of the result, and a scratchpad (most, size), float64."""
        shape = self.count, self.size
        stored, out = buffers.array(self.x).reshape(shape), buffers.array(self.out).reshape(shape)
        return stored, out, buffers.array(self.pad).view(np.float64).reshape(self.most, self.size)

    def bound(self, run: Callable[[slice], None]) -> Bound:
        """Return the call that runs a function for each block."""
        calls: list[Call] = [partial(run, block) for block in blocks(self.count, self.most)]
        return call_sequence(calls)
