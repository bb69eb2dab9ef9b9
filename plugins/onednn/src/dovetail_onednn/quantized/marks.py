"""Rounding of float32 results to stored bytes, with the bits of a definition in float64.

The library rounds the lower end of each result's error to a byte, then marks the elements whose
upper end would be another one. The definition's result may be either, and is computed as there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies
from dovetail_onednn._api import Algorithm, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, Eltwise
from dovetail_onednn.execution import Argument
from dovetail_onednn.quantized.stages import Stages

# Of the ends, which are float32 as well: their products, and their sums below 1024.
_ROUNDINGS, _SLACK = 4 * ULP, 2.0**-13

Settle = Callable[[Array | float], None]


class RowErrors(msgspec.Struct, frozen=True):
    """Errors of results that differ from row to row, in steps.

    Attributes:
        most: Rows with a larger one are computed by the definition.
        of: Returns the function that returns the errors of all rows, or one that none exceeds.
    """

    most: float
    of: Callable[[Buffers], Callable[[], Array | float]]


def marked_step(
    call: KernelCall,
    stages: Stages,
    real: Argument,
    scale: float,
    target: Argument,
    near: NearTies,
    exact_of: Callable[[Buffers], Exact],
    rows: RowErrors | None = None,
    *,
    is_positive: bool = False,
    before: Callable[[Buffers], Bound] | None = None,
) -> Step | None:
    """Return the step that rounds float32 results; None if the library only has generic code.

    Args:
        call: The call of the kernel.
        stages: The primitives that compute the results.
        real: The results, dense.
        scale: Real value of 1 in the results.
        target: Stored integers of the result, of 8 bits without a bitwidth.
        near: The rounding.
        exact_of: Returns the function that computes some elements by the definition.
        rows: Errors in addition to those of `near`.
        is_positive: Whether no result is negative, so that the relative error is one of results.
        before: Returns a call before the primitives.
    """
    factor, relative, error = scale / near.step, near.relative + _ROUNDINGS, near.error + _SLACK
    if not is_positive:
        farthest = max(abs(limit - near.zero) for limit in near.limits) + 1
        relative, error = 0.0, error + relative * farthest
    if rows is not None:
        error += rows.most
    below = (Eltwise(Algorithm.LINEAR, 1.0, near.zero - error),)
    lower, upper = factor * (1 - relative), factor * (1 + relative)
    is_fast = stages.combine(BinaryAlgorithm.MULTIPLY, real, lower, target, below)
    marks = stages.room(target.desc.of_type(DataType.U8))
    above = (
        Eltwise(Algorithm.LINEAR, 1.0, near.zero + error),
        Eltwise(Algorithm.ROUND),
        Eltwise(Algorithm.CLIP, *map(float, near.limits)),
        Binary(BinaryAlgorithm.SUBTRACT, target.desc),
        Eltwise(Algorithm.CLIP, 0.0, 1.0),
    )
    if not is_fast or not stages.combine(
        BinaryAlgorithm.MULTIPLY, real, upper, marks, above, target
    ):
        return None
    run = stages.execution()

    def bind(buffers: Buffers) -> Bound:
        out, result, marked = (_flat(buffers, v.value) for v in (target, real, marks))
        found = _Results(
            out, result.view(np.float32)[: out.size], marked.view(np.bool_)[: out.size]
        )
        settle = partial(found.settle, np.float64(factor), near, exact_of(buffers))
        if rows is not None:
            settle = partial(found.settle_rows, settle, rows.most, rows.of(buffers))
        first = () if before is None else (before(buffers),)
        return call_sequence((*first, run(buffers), settle))

    return call.step(bind)


class _Results(msgspec.Struct, frozen=True):
    """The results of a step, flat: stored integers, float32, and marks.

    The rounded integers of marked elements are the lower of two.
    """

    out: Array
    real: Array
    marks: Array

    def settle_rows(
        self, settle: Settle, most: float, errors_of: Callable[[], Array | float]
    ) -> None:
        """Mark whole rows whose errors are larger than the marks allow for, and settle."""
        errors = errors_of()
        if isinstance(errors, np.ndarray):
            far = np.flatnonzero(errors > most)
            self.marks.reshape(errors.size, -1)[far] = True
        settle(errors)

    def settle(
        self, factor: np.float64, near: NearTies, exact: Exact, errors: Array | float = 0.0
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
            errors = errors[at // (self.out.size // errors.size)]
        near.settle(self.out, at, nearest, np.abs(steps - nearest), exact, errors)


def _flat(buffers: Buffers, value: Value) -> Array:
    return buffers.array(value).reshape(-1)
