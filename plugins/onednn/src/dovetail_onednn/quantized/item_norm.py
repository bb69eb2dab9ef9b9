"""InstanceNorm and GroupNorm of the stored integers of one item.

NumPy computes the numbers of channels from exact sums, a primitive the results. These are rounded
as `marks` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_single
from dovetail_numpy.integer.norms import scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import block_size
from dovetail_numpy.kernels.column_moments import column_moments
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.wide import BLOCK
from dovetail_onednn._api import BinaryAlgorithm
from dovetail_onednn.attributes import Binary
from dovetail_onednn.execution import Argument
from dovetail_onednn.folding import Folding
from dovetail_onednn.quantized.marks import Errors, marked_step
from dovetail_onednn.quantized.stages import Stages, Term, has_fast_terms
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals

_LEAST = 1 << 14  # words: with fewer, NumPy alone takes less time
_LARGEST_SUM = 1 << 18  # elements: float64 has the sum of their squares
_SMALLEST, _LARGEST = 1e-12, 1e24  # far from underflow and overflow of factors
# Factor, offset, product and sum are rounded; the product is at most result and offset together.
_ROUNDINGS = 4.0
_MOST_ERROR = 2.0**-4  # steps: with larger errors, too many elements are computed exactly


def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm by mean and deviation over space, with constant factors."""
    return _item_norm(call, call.spec(0).shape[-1]) if call.op.is_by_channel else None


def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm with constant factors."""
    return _item_norm(call, call.op.group)


def _item_norm(call: KernelCall, groups: int) -> Step | None:
    spec, norm = call.spec(0), _ItemNorm.of(call, groups)
    if norm is None:
        return None
    folding = Folding.repeating(spec.shape, [(norm.width,)])
    full, per_channel = folding.desc(spec.shape), folding.desc((norm.width,))
    algorithms = BinaryAlgorithm.SUBTRACT, BinaryAlgorithm.MULTIPLY, BinaryAlgorithm.ADD
    ops = [Binary(algorithm, per_channel) for algorithm in algorithms]
    if not has_fast_terms(full, full, ops):
        return None
    stages, reals = Stages(call), None if norm.are_bytes else StoredReals(call, 0)
    if reals is None:
        stored, real = call.read(0), stages.room(full)
        stages.move(Argument(full.of_type(TYPES[spec.dtype]), stored), real)
    else:
        stored, real = reals.pair[0], reals.argument(full)
    rooms = [stages.room(per_channel) for _ in ops]
    terms: list[Term] = list(zip(ops, rooms, strict=True))
    stages.add_terms((real, real), 0.0, terms)
    found = _Numbers(norm, stored, [room.value for room in rooms], call.scratch(norm.nbytes))

    def before(buffers: Buffers) -> Bound:
        compute = found.compute(buffers)
        return compute if reals is None else call_sequence([compute, reals.conversion(buffers)])

    errors, near = Errors(norm.usual_error, lambda _: found.errors), norm.near
    return marked_step(
        call, stages, real.value, near.step, near, found.exact_of, errors, before=before
    )


class _ItemNorm(msgspec.Struct, frozen=True):
    """The normalization of an item.

    Attributes:
        are_bytes: Whether the data have 8 bits.
        groups: Number of groups of channels.
        height, width: Positions, and channels.
        epsilon: In squares of levels.
        factors: Gamma and beta.
        factor, offset: The same in steps of the result, (width,).
        near: The rounding.
    """

    are_bytes: bool
    groups: int
    height: int
    width: int
    epsilon: float
    factors: NormFactors
    factor: Array
    offset: Array
    near: NearTies

    @classmethod
    def of(cls, call: KernelCall, groups: int) -> _ItemNorm | None:
        """Return the numbers of a call; None if it has several items, or few or large numbers."""
        spec, out = call.spec(0), call.outputs[0].spec
        if DEFINITIONS.of(call.head) is None or not (is_single(spec) and is_single(out)):
            return None
        if {spec.dtype, out.dtype} - WORDS - TYPES.keys() or spec.shape[0] != 1:
            return None
        height, width = math.prod(spec.shape[1:-1]), spec.shape[-1]
        least = 1 if spec.dtype in TYPES else _LEAST
        is_usual = height * width >= least and height * (width // groups) <= _LARGEST_SUM
        factors, (step, zero, limits) = NormFactors.of(call), grid_of(out)
        if not is_usual or factors is None or limits != out.dtype.stored_range():
            return None
        epsilon = single(call.op.epsilon) / (scale_of(spec) * scale_of(spec))
        factor, offset = factors.in_steps(step, width)
        near = NearTies(step, zero, limits, 0.0, _ROUNDINGS * ULP)
        found = cls(
            spec.dtype in TYPES, groups, height, width, epsilon, factors, factor, offset, near
        )
        are_normal = _SMALLEST < epsilon < _LARGEST and float(np.abs(factor).max()) < _LARGEST
        most = found.usual_error + near.relative * near.farthest
        return found if are_normal and most < _MOST_ERROR else None

    @property
    def usual_error(self) -> float:
        """Largest error of offsets in steps, if what means have above floors is below a root."""
        return _ROUNDINGS * ULP * float((np.abs(self.factor) + np.abs(self.offset)).max())

    @property
    def nbytes(self) -> int:
        """Size of two scratchpads of a block."""
        item, least = (4, 2 * BLOCK) if self.are_bytes else (8, BLOCK)
        most = min(max(1, block_size(self.height * self.width, least) // self.width), self.height)
        return 2 * item * most * self.width

    def numbers(self, q: Array, scratch: Array) -> tuple[Array, Array, Array]:
        """Return floor, share and root by channel: those of `mean_and_variance`, and the divisor.

        Args:
            q: The item's stored integers, (height, width).
            scratch: Of `nbytes`.
        """
        pads = scratch.view(np.float32 if self.are_bytes else np.float64).reshape(2, -1)
        floor, share, variance = column_moments(q, self.groups, *pads)
        return floor, share, np.sqrt(variance + self.epsilon)


class _Numbers:
    """The numbers of channels, which each run computes.

    Args:
        norm: The normalization.
        stored: The data.
        rooms: Scratchpads for the floor, the factor and the offset without the zero point, float32,
            which repeat them.
        pad: That of `_ItemNorm`.
    """

    def __init__(self, norm: _ItemNorm, stored: Value, rooms: Sequence[Value], pad: Value) -> None:
        self._norm, self._stored, self._rooms, self._pad = norm, stored, rooms, pad
        self._found = np.ones((3, norm.width))  # floor, share and root
        self._offset = np.zeros(norm.width)

    def compute(self, buffers: Buffers) -> Bound:
        """Return the call that computes the numbers."""
        norm, scratch = self._norm, buffers.array(self._pad)
        q = buffers.array(self._stored).reshape(norm.height, norm.width)
        rooms = [buffers.array(v).view(np.float32).reshape(-1, norm.width) for v in self._rooms]

        def run() -> None:
            floor, share, root = self._found[:] = norm.numbers(q, scratch)
            factor = norm.factor / root
            self._offset[:] = norm.offset - share * factor
            for room, values in zip(rooms, (floor, factor, self._offset), strict=True):
                room[:] = values

        return run

    def errors(self) -> Array:
        """Return the errors of channels."""
        return np.asarray(np.abs(self._offset) * (_ROUNDINGS * ULP))

    def exact_of(self, buffers: Buffers) -> Exact:
        """Return the function that computes elements by the definition."""
        norm, stored = self._norm, buffers.array(self._stored).reshape(-1)

        def exact(at: Places) -> Array:
            column = at % norm.width
            floor, share, root = self._found[:, column]
            return norm.factors.applied((stored[at] - floor - share) / root, column)

        return exact
