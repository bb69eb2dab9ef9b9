"""Rounding of float32 results to stored integers, with the bits of a definition in float64.

The library rounds the lower end of each result's error to an integer, then marks the elements whose
upper end would be another one. The definition's result may be either, and is computed as there.

Bytes are written by the library, which rounds sums with the zero point. Words are rounded by adding
`MAGIC` and the zero point, so that errors stay relative to small results; NumPy copies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies
from dovetail_onednn._api import Algorithm, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, Eltwise, PostOp
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.quantized.word_conversions import MAGIC

# Of the ends, which are float32 as well: their factors, slopes, products and sums. For bytes, sums
# include the zero point, and stay below 1024.
_ROUNDINGS, _SLACK = 6 * ULP, 2.0**-13

Settle = Callable[[Array | float, int], None]


class Errors(msgspec.Struct, frozen=True):
    """Errors of results that differ from row to row, or from channel to channel, in steps.

    Attributes:
        most: Elements with a larger one are computed by the definition.
        of: Returns the function that returns all errors, or one that none exceeds.
        inner: Number of neighbors that share one; those after the last one start over.
    """

    most: float
    of: Callable[[Buffers], Callable[[], Array | float]]
    inner: int = 1


def marked_step(
    call: KernelCall,
    stages: Stages,
    real: Value,
    scale: float,
    near: NearTies,
    exact_of: Callable[[Buffers], Exact],
    more: Errors | None = None,
    *,
    is_positive: bool = False,
    before: Callable[[Buffers], Bound] | None = None,
) -> Step | None:
    """Return the step that rounds float32 results; None if the library only has generic code.

    Args:
        call: The call of the kernel. Its output has 8 bits without a bitwidth, or 16 bits.
        stages: The primitives that compute the results.
        real: The results, dense.
        scale: Real value of 1 in the results.
        near: The rounding.
        exact_of: Returns the function that computes some elements by the definition.
        more: Errors in addition to those of `near`.
        is_positive: Whether no result is negative.
        before: Returns a call before the primitives.
    """
    out, factor = call.outputs[0], scale / near.step
    flat = dense((1, math.prod(out.shape)))
    results, written = Argument(flat, real), call.write()
    most = 0.0 if more is None else more.most
    if (kind := TYPES.get(out.dtype)) is None:
        ends, target = _ends_of_words(near, most, is_positive=is_positive), stages.room(flat)
    else:
        ends = _ends_of_bytes(near, most, is_positive=is_positive)
        target = Argument(flat.of_type(kind), written)
    marks = stages.room(flat.of_type(DataType.U8))
    mark = (Binary(BinaryAlgorithm.SUBTRACT, target.desc), Eltwise(Algorithm.CLIP, 0.0, 1.0))
    (lower, below), (upper, above) = ends
    for relative, chain, into in ((lower, below, target), (upper, (*above, *mark), marks)):
        if not stages.combine(
            BinaryAlgorithm.MULTIPLY, results, factor * relative, into, chain, target
        ):
            return None
    run = stages.execution()

    def bind(buffers: Buffers) -> Bound:
        stored = _flat(buffers, written)
        found = _Results(
            stored,
            _flat(buffers, real).view(np.float32)[: stored.size],
            _flat(buffers, marks.value).view(np.bool_)[: stored.size],
        )
        settle = partial(found.settle, np.float64(factor), near, exact_of(buffers))
        if more is not None:
            settle = partial(found.settle_far, settle, more, more.of(buffers))
        calls = [*(() if before is None else (before(buffers),)), run(buffers)]
        if kind is None:
            words = _flat(buffers, target.value).view(np.uint32)[: stored.size]
            calls.append(partial(np.copyto, stored.view(np.uint16), words, casting="unsafe"))
        return call_sequence((*calls, settle))

    return call.step(bind)


# A factor of results, and the post-ops that make an end of them.
_End = tuple[float, tuple[PostOp, ...]]


def _ends_of_bytes(near: NearTies, most: float, *, is_positive: bool) -> tuple[_End, _End]:
    """Return how to compute both ends of bytes, with a relative error of positive results only."""
    relative, error = near.relative + _ROUNDINGS, near.error + _SLACK + most
    if not is_positive:
        relative, error = 0.0, error + relative * (near.farthest + 1)
    below = (Eltwise(Algorithm.LINEAR, 1.0, near.zero - error),)
    above = (
        Eltwise(Algorithm.LINEAR, 1.0, near.zero + error),
        Eltwise(Algorithm.ROUND),
        Eltwise(Algorithm.CLIP, *map(float, near.limits)),
    )
    return (1 - relative, below), (1 + relative, above)


def _ends_of_words(near: NearTies, most: float, *, is_positive: bool) -> tuple[_End, _End]:
    """Return how to compute both ends of words, `MAGIC` added."""
    relative, error = near.relative + _ROUNDINGS, (near.error + most) * (1 + _ROUNDINGS)
    last = (
        Eltwise(Algorithm.CLIP, *(float(limit - near.zero) for limit in near.limits)),
        Eltwise(Algorithm.LINEAR, 1.0, MAGIC + near.zero),
    )

    def end(sign: int) -> _End:
        factor, other = 1 + sign * relative, 1 - sign * relative
        # negative results have the other factor
        slope = () if is_positive else (Eltwise(Algorithm.RELU, other / factor),)
        shift = (Eltwise(Algorithm.LINEAR, 1.0, sign * error),) if error else ()
        return factor, (*slope, *shift, *last)

    return end(-1), end(1)


class _Results(msgspec.Struct, frozen=True):
    """The results of a step, flat: stored integers, float32, and marks.

    The rounded integers of marked elements are the lower of two.
    """

    out: Array
    real: Array
    marks: Array

    def settle_far(
        self, settle: Settle, more: Errors, errors_of: Callable[[], Array | float]
    ) -> None:
        """Mark elements whose errors are larger than the marks allow for, and settle."""
        errors = errors_of()
        if isinstance(errors, np.ndarray):
            far = np.flatnonzero(errors > more.most)
            self.marks.reshape(-1, errors.size, more.inner)[:, far] = True
        settle(errors, more.inner)

    def settle(
        self,
        factor: np.float64,
        near: NearTies,
        exact: Exact,
        errors: Array | float = 0.0,
        inner: int = 1,
    ) -> None:
        """Compute marked elements exactly where their own bound demands it."""
        at = np.flatnonzero(self.marks)
        if not at.size:
            return
        steps = self.real[at] * factor + near.zero
        steps.clip(*near.limits, out=steps)
        nearest = np.rint(steps)
        self.out[at] = nearest
        if isinstance(errors, np.ndarray):
            errors = errors[at // inner % errors.size]
        near.settle(self.out, at, nearest, np.abs(steps - nearest), exact, errors)


def _flat(buffers: Buffers, value: Value) -> Array:
    return buffers.array(value).reshape(-1)
