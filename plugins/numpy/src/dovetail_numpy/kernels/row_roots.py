"""The numbers of rows of norms along the last axes: LayerNorm, RmsNorm and L2Norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, ScaleOffset
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.integer.norms import mean_and_variance, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.byte_rows import BYTE, divisor

Doubles = NDArray[np.float64]


def axes_of(call: KernelCall) -> list[int]:
    """Return the axes of a LayerNorm, RmsNorm or L2Norm."""
    op = call.op
    return [int(axis) for axis in (op.over() if call.head.op_type == "L2Norm" else op.axes)]


def has_last_axes(call: KernelCall, axes: Sequence[int]) -> bool:
    """Return whether axes are the last ones of the first input, in order."""
    rank = len(call.spec(0).shape)
    return bool(axes) and list(axes) == list(range(rank - len(axes), rank))


class RowNumbers(NamedTuple):
    """The numbers of rows by the definition, float64, (n,).

    Attributes:
        floor: Floor of the mean of stored integers; the zero point if no mean is subtracted.
        share: What the mean has above it.
        root: Divisor of deviations.
    """

    floor: Doubles
    share: Doubles
    root: Doubles


@dataclass(frozen=True, slots=True)
class RowRoots:
    """The norm of rows of stored integers.

    Attributes:
        op_type: Name of the op.
        zero: Zero point of the data.
        size: Elements of a row.
        epsilon: Of L2Norm in levels, of others in squares of levels.
        part: Elements of a row of bytes whose squares have an exact sum in float32.
    """

    op_type: str
    zero: int
    size: int
    epsilon: float
    part: int

    @classmethod
    def of(cls, call: KernelCall) -> RowRoots | None:
        """Return the norm of a call; None if it is not along the last axes of one grid."""
        spec, axes, op_type = call.spec(0), axes_of(call), call.head.op_type
        is_usual = isinstance(spec.encoding, ScaleOffset) and scale_of(spec) > 0
        if not is_usual or not has_last_axes(call, axes):
            return None
        (scale, zero, _), size = grid_of(spec), math.prod(spec.shape[axis] for axis in axes)
        unit = scale if op_type == "L2Norm" else scale * scale
        return cls(op_type, zero, size, single(call.op.epsilon) / unit, divisor(size, BYTE))

    @property
    def has_mean(self) -> bool:
        """Return whether the mean is subtracted."""
        return self.op_type == "LayerNorm"

    def add(self, stored: Array, real: Array, sums: Doubles) -> None:
        """Add the elements of rows, and their squares.

        Args:
            stored: Rows of stored integers, (n, size).
            real: Set to these, or to levels if no mean is subtracted, of the same shape: float64,
                or float32 for bytes.
            sums: Set to both sums of what `real` has, (2, n), which are exact.
        """
        np.copyto(real, stored)
        if self.has_mean:  # zero points cancel
            sums[0] = np.einsum("ri->r", real)
        else:
            np.subtract(real, real.dtype.type(self.zero), real)
        if real.dtype == np.float64:
            np.vecdot(real, real, out=sums[1])
            return
        parts = real.reshape(len(real), -1, self.part)
        np.add.reduce(np.vecdot(parts, parts), axis=1, dtype=np.float64, out=sums[1])

    def numbers(self, sums: Doubles) -> RowNumbers:
        """Return the numbers of rows with these sums; see `add`."""
        total, squares = sums
        if not self.has_mean:
            zeros = np.full(total.shape, float(self.zero))
            return RowNumbers(zeros, np.zeros(total.shape), self._roots(squares))
        found = mean_and_variance(total.astype(np.int64), squares.astype(np.int64), self.size)
        floor, share, variance = found
        return RowNumbers(floor.astype(np.float64), share, self._roots(variance))

    def _roots(self, squares: Doubles) -> Doubles:
        """Return the divisors of rows: of LayerNorm by variances, of others by sums of squares."""
        match self.op_type:
            case "L2Norm":
                root = np.maximum(np.sqrt(squares), self.epsilon)
            case "RmsNorm":
                root = np.sqrt(squares / self.size + self.epsilon)
            case _:
                root = np.sqrt(squares + self.epsilon)
        return np.where(root == 0, 1.0, root)
