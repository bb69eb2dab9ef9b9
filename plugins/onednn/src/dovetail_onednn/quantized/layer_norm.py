"""LayerNorm of stored bytes along the last axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import real_of
from dovetail_numpy.integer.norms import mean_and_variance, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.near_ties import Exact, NearTies, Places
from dovetail_onednn._api import FORWARD_TRAINING, Arg, NormalizationFlag
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense, vector
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import ULP, RowErrors, marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, is_narrow
from dovetail_onednn.steps import is_slow

_LEAST = 1 << 13  # with fewer elements, the calls of primitives take as long as NumPy's
_BYTE = 1 << 8
_LANES = 8  # sums that the library adds side by side, on any processor that it is used on
_MOST_ROW_ERROR = 2.0**-10  # steps
_FEW = 2.0**-14  # errors for which few elements more are computed by the definition
_MOST_ERROR = 2.0**-6
_TRUE = np.ones(1, np.bool_)
_SMALLEST, _LARGEST = 1e-12, 1e30  # far from underflow and overflow


def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm along the last axes, with constant factors; see `Kernel.make`."""
    norm = _Norm.of(call) if _is_usual(call) else None
    if norm is None:
        return None
    rows, spec, out = dense((norm.count, norm.width)), call.spec(0), call.outputs[0]
    stored, per_column = rows.of_type(TYPES[spec.dtype]), vector(norm.width)
    flags = NormalizationFlag.SCALE | NormalizationFlag.SHIFT
    description = Description(
        "layer_normalization_forward",
        (ENGINE, FORWARD_TRAINING, stored, rows, None, norm.epsilon, flags),
        lambda: f"a layer normalization of the stored rows of {rows.key}",
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        data, real = Argument(stored, call.read(0)), stages.room(rows)
        mean, variance = (stages.room(desc.desc(arg)) for arg in (Arg.MEAN, Arg.VARIANCE))
        arguments: dict[int, Argument] = {
            Arg.SOURCE: data,
            Arg.SCALE: stages.numbers(norm.factor.astype(np.float32), per_column),
            Arg.SHIFT: stages.numbers(norm.offset.astype(np.float32), per_column),
            Arg.MEAN: mean,
            Arg.VARIANCE: variance,
            Arg.DESTINATION: real,
        }
        stages.add(desc, arguments)
    errors = RowErrors(_MOST_ROW_ERROR, partial(norm.errors_of, mean.value, variance.value))
    target = Argument(rows.of_type(TYPES[out.dtype]), call.write())
    exact_of = partial(norm.exact_of, data.value)
    return marked_step(call, stages, real, norm.near.step, target, norm.near, exact_of, errors)


def _is_usual(call: KernelCall) -> bool:
    """Return whether rows of bytes are normalized, with constant factors."""
    spec, out, rank = call.spec(0), call.outputs[0].spec, len(call.spec(0).shape)
    is_known = DEFINITIONS.of(call.head) is not None and is_narrow(spec) and is_narrow(out)
    if not is_known or {spec.dtype, out.dtype} - TYPES.keys() or math.prod(spec.shape) < _LEAST:
        return False
    axes = [int(axis) for axis in call.op.axes]
    width = math.prod(spec.shape[axis] for axis in axes)
    return (
        bool(axes)
        and axes == list(range(rank - len(axes), rank))
        and width * _BYTE <= EXACT  # sums of squares are below 2**31 then, too
        and all(call.has(i) == (call.static(i) is not None) for i in (1, 2))
        and grid_of(out)[2] == out.dtype.stored_range()
    )


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
        count, width: Number of rows, and their length.
        epsilon: In squares of levels.
        gamma, beta: Real values for each element of a row, float64; None where omitted.
        factor, offset: The same in steps of the result.
        near: The rounding.
    """

    count: int
    width: int
    epsilon: float
    gamma: Array | None
    beta: Array | None
    factor: Array
    offset: Array
    near: NearTies

    @classmethod
    def of(cls, call: KernelCall) -> _Norm | None:
        """Return the numbers; None if errors would matter too often."""
        spec, (step, zero, limits) = call.spec(0), grid_of(call.outputs[0].spec)
        width = math.prod(spec.shape[-len(call.op.axes) :])
        gamma, beta = (
            None if (array := call.static(i)) is None else real_of(array, call.spec(i)).reshape(-1)
            for i in (1, 2)
        )
        factor = np.broadcast_to((1.0 if gamma is None else gamma) / step, (width,))
        offset = np.broadcast_to((0.0 if beta is None else beta) / step, (width,))
        epsilon = single(call.op.epsilon) / (scale_of(spec) * scale_of(spec))
        most = float(np.abs(offset).max())
        relative = (width / (2 * _LANES) + 24) * ULP
        near = NearTies(step, zero, limits, (relative + ULP) * most, relative + ULP)
        farthest = max(abs(limit - zero) for limit in limits)
        is_normal = _SMALLEST < epsilon < _LARGEST and float(np.abs(factor).max()) < _LARGEST
        if not is_normal or not near.error + near.relative * farthest < _MOST_ERROR:
            return None
        count = math.prod(spec.shape) // width
        return cls(count, width, epsilon, gamma, beta, factor, offset, near)

    def errors_of(
        self, mean: Value, variance: Value, buffers: Buffers
    ) -> Callable[[], Array | float]:
        """Return the function that returns the errors of rows, or one that none exceeds."""
        means, variances = (
            buffers.array(v).view(np.float32)[: self.count] for v in (mean, variance)
        )
        most = ULP * max(1.0, float(np.abs(self.factor).max())) * 1.01  # these are rounded, too
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
        stored = buffers.array(data).reshape(self.count, self.width)

        def exact(at: Places) -> Array:
            row, column = np.divmod(at, self.width)
            # the places are in order, so that those of a row are neighbors
            is_first = np.concatenate((_TRUE, row[1:] != row[:-1]))
            index, rows = np.cumsum(is_first) - 1, stored[row[is_first]].astype(np.int32)
            # of stored integers: zero points cancel
            sums, squares = np.einsum("ri->r", rows), np.einsum("ri,ri->r", rows, rows)
            found = mean_and_variance(sums.astype(np.int64), squares.astype(np.int64), self.width)
            floor, share, variance = (each[index] for each in found)
            real = (rows[index, column] - floor - share) / np.sqrt(variance + self.epsilon)
            if self.gamma is not None:
                real = real * self.gamma[column]
            if self.beta is not None:
                real = real + self.beta[column]
            return np.asarray(real)

        return exact
