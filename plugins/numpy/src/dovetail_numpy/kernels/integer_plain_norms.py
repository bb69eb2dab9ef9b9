"""RmsNorm and L2Norm of stored bytes along the last axes, a block of rows at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.norms import single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Floats
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE
from dovetail_numpy.kernels.integer_norms import (
    BYTE,
    NormNumbers,
    Rows,
    are_bytes,
    by_block,
    divisor,
    quiet,
)


@KERNELS.register(PACKAGE, "RmsNorm", quantized=True)
@KERNELS.register(PACKAGE, "L2Norm", quantized=True)
def plain_norm(call: KernelCall) -> Step | None:
    """Run RmsNorm or L2Norm along the last axes, with constant factors."""
    roots = RowRoots.of(call)
    factors = [call.static(i) if call.has(i) else None for i in (1, 2)]
    is_constant = all(call.has(i) == (factors[i - 1] is not None) for i in (1, 2))
    if roots is None or not is_constant:
        return None
    # an element over the root of the mean is at most the root of their number; over that of the
    # sum at most 1
    norm = NormNumbers.of(call.head, factors, roots.size, roots.size if roots.is_mean else 1)
    if norm is None:
        return None
    rows = Rows.of(call, roots.size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v, spare = (pad[: len(q)] for pad in pads)
            root = roots.of_rows(q, v)
            np.multiply(v, (1.0 / root).astype(np.float32)[:, None], v)
            np.multiply(v, norm.factor, v)
            np.add(v, norm.offset, v)

            def exact(at: NDArray[np.intp]) -> Array:
                row, column = np.divmod(at, roots.size)
                levels = q.reshape(-1)[at].astype(np.int64) - roots.zero
                return norm.scaled(levels / root[row], column)

            norm.near.store(v, result[block], spare, exact)

        return quiet(by_block(rows, run))

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class RowRoots:
    """The divisors of rows of bytes.

    Attributes:
        zero: Zero point of the bytes.
        size: Elements of a row.
        epsilon: Of RmsNorm in squares of levels, of L2Norm in levels.
        is_mean: True for RmsNorm.
    """

    zero: int
    size: int
    epsilon: float
    is_mean: bool

    @classmethod
    def of(cls, call: KernelCall) -> RowRoots | None:
        """Return the divisors of an RmsNorm or L2Norm; None if it is not of rows of bytes."""
        op, spec, is_mean = call.op, call.spec(0), call.head.op_type == "RmsNorm"
        axes, rank = [int(axis) for axis in (op.axes if is_mean else op.over())], len(spec.shape)
        if not axes or axes != list(range(rank - len(axes), rank)) or not are_bytes(call.head):
            return None
        (scale, zero, _), size = grid_of(spec), math.prod(spec.shape[axis] for axis in axes)
        epsilon = single(op.epsilon) / (scale * scale if is_mean else scale)
        return cls(zero, size, epsilon, is_mean)

    def of_rows(self, stored: Array, levels: Floats) -> Array:
        """Return the divisors of rows (n, size), float64 (n,), and write their levels."""
        np.copyto(levels, stored)
        np.subtract(levels, np.float32(self.zero), levels)
        parts = levels.reshape(-1, divisor(self.size, BYTE))  # their sums are below 2**24
        squares = np.vecdot(parts, parts).reshape(len(stored), -1).sum(1, dtype=np.float64)
        if self.is_mean:
            root = np.sqrt(squares / self.size + self.epsilon)
        else:
            root = np.maximum(np.sqrt(squares), self.epsilon)
        return np.where(root == 0, 1.0, root)
