"""The divisors of norms along the last axes: LayerNorm, RmsNorm and L2Norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, ScaleOffset
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.integer.norms import scale_of, single
from dovetail_numpy.integer.rescaling import grid_of


def axes_of(call: KernelCall) -> list[int]:
    """Return the axes of a LayerNorm, RmsNorm or L2Norm."""
    op = call.op
    return [int(axis) for axis in (op.over() if call.head.op_type == "L2Norm" else op.axes)]


def has_last_axes(call: KernelCall, axes: Sequence[int]) -> bool:
    """Return whether axes are the last ones of the first input, in order."""
    rank = len(call.spec(0).shape)
    return bool(axes) and list(axes) == list(range(rank - len(axes), rank))


@dataclass(frozen=True, slots=True)
class RowRoots:
    """The divisors of rows of levels.

    Attributes:
        op_type: Name of the op.
        zero: Zero point of the data.
        size: Elements of a row.
        epsilon: Of L2Norm in levels, of others in squares of levels.
    """

    op_type: str
    zero: int
    size: int
    epsilon: float

    @classmethod
    def of(cls, call: KernelCall) -> RowRoots | None:
        """Return the divisors of a call; None if it is not along the last axes of one grid."""
        spec, axes, op_type = call.spec(0), axes_of(call), call.head.op_type
        is_usual = isinstance(spec.encoding, ScaleOffset) and scale_of(spec) > 0
        if not is_usual or not has_last_axes(call, axes):
            return None
        (scale, zero, _), size = grid_of(spec), math.prod(spec.shape[axis] for axis in axes)
        unit = scale if op_type == "L2Norm" else scale * scale
        return cls(op_type, zero, size, single(call.op.epsilon) / unit)

    def roots(self, squares: Array) -> Array:
        """Return the divisors of rows.

        Args:
            squares: Of LayerNorm their variances, of others the sums of their squares; float64.
        """
        match self.op_type:
            case "L2Norm":
                root = np.maximum(np.sqrt(squares), self.epsilon)
            case "RmsNorm":
                root = np.sqrt(squares / self.size + self.epsilon)
            case _:
                root = np.sqrt(squares + self.epsilon)
        return np.where(root == 0, 1.0, root)
