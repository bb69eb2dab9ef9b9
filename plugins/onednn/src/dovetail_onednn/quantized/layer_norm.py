"""LayerNorm of stored bytes along the last axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer.norms import mean_and_variance, scale_of, single
from dovetail_numpy.kernels.near_ties import ULP, Exact, Places
from dovetail_numpy.kernels.row_roots import axes_of
from dovetail_onednn._api import FORWARD_TRAINING, Arg
from dovetail_onednn.execution import Argument
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.marks import Errors, marked_step
from dovetail_onednn.quantized.row_norm import RowNorm, has_rows
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.quantized.word_norm import norm_of_words
from dovetail_onednn.steps import is_slow

_BYTE = 1 << 8
_LANES = 8  # sums that the library adds side by side, on any processor that it is used on
_MOST_ROW_ERROR = 2.0**-10  # steps
_FEW = 2.0**-14  # errors for which few elements more are computed by the definition
_TRUE = np.ones(1, np.bool_)
_SMALLEST, _LARGEST = 1e-12, 1e30  # far from underflow and overflow


def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm along the last axes, with constant factors; see `Kernel.make`."""
    norm = _Norm.of(call)
    if norm is None:
        return norm_of_words(call)
    rows = norm.rows
    with PrimitiveDesc(rows.described(call, FORWARD_TRAINING, norm.epsilon)) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        stored = rows.desc.of_type(TYPES[call.spec(0).dtype])
        data, real = Argument(stored, call.read(0)), stages.room(rows.desc)
        mean, variance = (stages.room(desc.desc(arg)) for arg in (Arg.MEAN, Arg.VARIANCE))
        arguments = rows.arguments(stages) | {
            Arg.SOURCE: data,
            Arg.MEAN: mean,
            Arg.VARIANCE: variance,
            Arg.DESTINATION: real,
        }
        stages.add(desc, arguments)
    errors = Errors(
        _MOST_ROW_ERROR, partial(norm.errors_of, mean.value, variance.value), rows.width
    )
    exact_of = partial(norm.exact_of, data.value)
    return marked_step(call, stages, real.value, rows.near.step, rows.near, exact_of, errors)


class _Norm(msgspec.Struct, frozen=True):
    """The numbers of a LayerNorm.

    With `u` half the distance of 1 from the next float32, the library computes, of stored integers:

    - the mean m: the sum is exact, so that m is off by at most `u * abs(m)`;
    - the variance, of `q - m`: rounded differences, up to `width / 8` sums one after the other, and
      up to 8 more, a quotient, and the sum with epsilon;
    - a square root, its reciprocal, the product of that with `q - m`, and a fused product and sum
      with factors that are rounded themselves.

    The error of the mean is one of rows: over a deviation near 0 it is large. Its square adds to
    the variance; while the error of a row is at most 2**-10, that is less than `16 * u` of it. All
    others are relative to the product with gamma: half those of the variance, and some more.

    Attributes:
        rows: Those that it shares with other norms.
        epsilon: In squares of levels.
    """

    rows: RowNorm
    epsilon: float

    @classmethod
    def of(cls, call: KernelCall) -> _Norm | None:
        """Return the numbers; None if it is not of rows of bytes, or errors matter too often."""
        spec, axes = call.spec(0), axes_of(call)
        if not has_rows(call, axes):
            return None
        width = math.prod(spec.shape[axis] for axis in axes)
        epsilon = single(call.op.epsilon) / (scale_of(spec) * scale_of(spec))
        rows = RowNorm.of(call, width, width / (2 * _LANES) + 24)
        return cls(rows, epsilon) if rows is not None and _SMALLEST < epsilon < _LARGEST else None

    def errors_of(
        self, mean: Value, variance: Value, buffers: Buffers
    ) -> Callable[[], Array | float]:
        """Return the function that returns the errors of rows, or one that none exceeds."""
        means, variances = (
            buffers.array(v).view(np.float32)[: self.rows.count] for v in (mean, variance)
        )
        largest = float(np.abs(self.rows.factor).max())
        most = ULP * max(1.0, largest) * 1.01  # factors are rounded, too
        epsilon, farthest = np.float32(self.epsilon), most * _BYTE

        def errors() -> Array | float:
            least = float(variances.min()) + self.epsilon
            if farthest * farthest < _FEW * _FEW * least:
                return farthest / math.sqrt(least)
            found = np.abs(means) / np.sqrt(variances + epsilon) * most
            return np.asarray(found * (variances > 0))  # the means of equal integers are exact

        return errors

    def exact_of(self, data: Value, buffers: Buffers) -> Exact:
        """Return the function that computes elements by the definition."""
        width = self.rows.width
        stored = buffers.array(data).reshape(self.rows.count, width)

        def exact(at: Places) -> Array:
            row, column = np.divmod(at, width)
            # indices are sorted, so that those of a row are neighbors
            is_first = np.concatenate((_TRUE, row[1:] != row[:-1]))
            index, rows = np.cumsum(is_first) - 1, stored[row[is_first]].astype(np.int32)
            # of stored integers: zero points cancel
            sums, squares = np.einsum("ri->r", rows), np.einsum("ri,ri->r", rows, rows)
            found = mean_and_variance(sums.astype(np.int64), squares.astype(np.int64), width)
            floor, share, variance = (each[index] for each in found)
            real = (rows[index, column] - floor - share) / np.sqrt(variance + self.epsilon)
            return self.rows.factors.applied(real, column)

        return exact
