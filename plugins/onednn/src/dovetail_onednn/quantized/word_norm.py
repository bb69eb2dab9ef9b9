"""LayerNorm, RmsNorm and L2Norm of 16-bit data along the last axes.

NumPy computes the numbers of rows from exact sums; primitives normalize with them. Results are
rounded as `marks` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Call, block_size, blocks
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.row_roots import RowRoots
from dovetail_numpy.kernels.wide import BLOCK
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, BinaryAlgorithm, NormalizationFlag
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense, vector
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import Errors, marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals
from dovetail_onednn.steps import is_slow

_LEAST = 1 << 13  # with fewer elements, the calls of primitives take as long as NumPy's
_LARGEST_ROW = 1 << 18  # elements: float64 has the sum of their squares
# The variance (half as much in its root), the root, its reciprocal, the difference from the mean,
# the factor, two products and a sum are rounded.
_ROUNDINGS = 8.0
_MOST_ERROR = 2.0**-4  # steps: with larger errors, too many elements are computed exactly
_MOST_ROW_ERROR = 2.0**-12
_FEW = 2.0**-14  # errors for which few elements more are computed exactly
_LEAST_SQUARE = 1e-30  # of roots of rows of zeros, so that float32 does not underflow
_LARGEST, _LARGEST_EPSILON = 1e30, 1e15  # far from overflow, of squares as well
_DOUBLE = 8  # bytes


def norm_of_words(call: KernelCall) -> Step | None:
    """Run LayerNorm, RmsNorm or L2Norm of words, with constant factors; see `Kernel.make`."""
    norm = _Norm.of(call)
    if norm is None:
        return None
    rows, stages, reals = dense((norm.count, norm.roots.size)), Stages(call), StoredReals(call, 0)
    data, real, per_column = reals.argument(rows), stages.room(rows), vector(norm.roots.size)
    floors = stages.room(dense((norm.count, 1)))
    if norm.roots.has_mean and not _subtract(stages, data, floors):
        return None
    with PrimitiveDesc(_described(rows)) as desc:
        if is_slow(desc):
            return None
        mean, variance = (stages.room(desc.desc(arg)) for arg in (Arg.MEAN, Arg.VARIANCE))
        stages.add(
            desc,
            {
                Arg.SCALE: stages.numbers(norm.factor.astype(np.float32), per_column),
                Arg.SHIFT: stages.numbers(norm.offset.astype(np.float32), per_column),
                Arg.SOURCE: data,
                Arg.MEAN: mean,
                Arg.VARIANCE: variance,
                Arg.DESTINATION: real,
            },
        )
    rooms = floors.value, mean.value, variance.value
    numbers = _Numbers(norm, reals.pair[0], rooms, call.scratch(norm.nbytes))

    def before(buffers: Buffers) -> Bound:
        return call_sequence([*numbers.calls(buffers), reals.conversion(buffers)])

    errors, near = Errors(_MOST_ROW_ERROR, numbers.errors_of, norm.roots.size), norm.near
    return marked_step(
        call, stages, real.value, near.step, near, numbers.exact_of, errors, before=before
    )


def _described(rows: MemoryDesc) -> Description:
    """Describe the primitive that normalizes rows with given means and variances."""
    flags = NormalizationFlag.SCALE | NormalizationFlag.SHIFT | NormalizationFlag.GIVEN_STATISTICS
    return Description(
        "layer_normalization_forward",
        (ENGINE, FORWARD_INFERENCE, rows, rows, None, 0.0, flags),
        lambda: f"a layer normalization of the levels of {rows.key}",
    )


def _subtract(stages: Stages, rows: Argument, floors: Argument) -> bool:
    """Add the subtraction of a number from each row; return whether the library has fast code."""
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.SUBTRACT, rows.desc, floors.desc, rows.desc),
        lambda: f"distances of the rows of {rows.desc.key} from a number each",
    )
    with PrimitiveDesc(description) as desc:
        stages.add(desc, {Arg.SOURCE: rows, Arg.OTHER: floors, Arg.DESTINATION: rows})
        return not is_slow(desc)


class _Norm(msgspec.Struct, frozen=True):
    """The numbers of a norm of rows.

    Attributes:
        roots: The divisors.
        count: Number of rows.
        factors: Gamma and beta.
        factor, offset: The same in steps of the result.
        near: The rounding.
    """

    roots: RowRoots
    count: int
    factors: NormFactors
    factor: Array
    offset: Array
    near: NearTies

    @classmethod
    def of(cls, call: KernelCall) -> _Norm | None:
        """Return the numbers; None if there are no such rows, or errors matter too often."""
        spec, out = call.spec(0), call.outputs[0].spec
        if spec.dtype not in WORDS or DEFINITIONS.of(call.head) is None or not is_single(out):
            return None
        if math.prod(spec.shape) < _LEAST or out.dtype not in WORDS | TYPES.keys():
            return None
        step, zero, limits = grid_of(out)
        roots, factors = RowRoots.of(call), NormFactors.of(call)
        if roots is None or factors is None or limits != out.dtype.stored_range():
            return None
        if roots.size > _LARGEST_ROW or roots.epsilon > _LARGEST_EPSILON:
            return None
        factor, offset = factors.in_steps(step, roots.size)
        relative = (_ROUNDINGS + 1) * ULP
        near = NearTies(step, zero, limits, relative * float(np.abs(offset).max()), relative)
        is_normal = float(np.abs(factor).max()) < _LARGEST
        if not is_normal or not near.error + near.relative * near.farthest < _MOST_ERROR:
            return None
        return cls(roots, math.prod(spec.shape) // roots.size, factors, factor, offset, near)

    @property
    def most(self) -> int:
        """Rows of a block."""
        size = self.roots.size
        return min(max(1, block_size(self.count * size, BLOCK) // size), self.count)

    @property
    def nbytes(self) -> int:
        """Size of the scratchpad of a block."""
        return _DOUBLE * self.most * self.roots.size


class _Numbers:
    """The numbers of rows, which each run computes.

    Args:
        norm: The norm.
        stored: The data.
        rooms: Scratchpads for floors, means above them, and variances, float32.
        pad: That of a block.
    """

    def __init__(
        self, norm: _Norm, stored: Value, rooms: tuple[Value, Value, Value], pad: Value
    ) -> None:
        self._norm, self._stored, self._rooms, self._pad = norm, stored, rooms, pad
        self._sums = np.zeros((2, norm.count))
        self._found = np.ones((3, norm.count))  # floor, share and root of each row

    def _rows(self, buffers: Buffers) -> Array:
        return buffers.array(self._stored).reshape(self._norm.count, self._norm.roots.size)

    def calls(self, buffers: Buffers) -> list[Call]:
        """Return the calls that compute the numbers."""
        norm, rows, sums = self._norm, self._rows(buffers), self._sums
        pad = buffers.array(self._pad).view(np.float64).reshape(norm.most, norm.roots.size)
        floors, means, variances = (
            buffers.array(room).view(np.float32)[: norm.count] for room in self._rooms
        )

        def add(block: slice) -> None:
            q = rows[block]
            norm.roots.add(q, pad[: len(q)], sums[:, block])

        def finish() -> None:
            self._found[:] = norm.roots.numbers(sums)
            floor, share, root = self._found
            floors[:], means[:] = floor, share if norm.roots.has_mean else floor
            np.maximum(root * root, _LEAST_SQUARE, out=variances, casting="same_kind")

        return [*(partial(add, block) for block in blocks(norm.count, norm.most)), finish]

    def errors_of(self, buffers: Buffers) -> Callable[[], Array | float]:
        """Return the function that returns the errors of rows, or one that none exceeds.

        They are those of the float32 nearest to what a mean has above its floor, in steps.
        """
        largest = float(np.abs(self._norm.factor).max())

        def errors() -> Array | float:
            _, share, root = self._found
            found = np.abs(share.astype(np.float32) - share) * (largest / root)
            most = float(found.max())
            return found if most > _FEW else most

        return errors

    def exact_of(self, buffers: Buffers) -> Exact:
        """Return the function that computes elements by the definition."""
        norm, stored = self._norm, self._rows(buffers).reshape(-1)

        def exact(at: Places) -> Array:
            row, column = np.divmod(at, norm.roots.size)
            floor, share, root = self._found[:, row]
            return norm.factors.applied((stored[at] - floor - share) / root, column)

        return exact
