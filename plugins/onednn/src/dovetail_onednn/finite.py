"""Binds for finite numbers, and others for data with NaN or infinities.

A product of a matrix that is mostly 0 is NaN wherever one of its numbers is not finite: of an image
of 160 by 160 pixels with one infinity, enlarged four times, 64 by 64 pixels of all channels.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

from typing import Any

import numpy as np

from dovetail.ir import DType
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    PlanRecorder,
    RecipeError,
    Source,
    Value,
)
from dovetail_onednn._api import DataType
from dovetail_onednn.nan import elements
from dovetail_onednn.recipes import BUILDERS

_FINITE = "onednn.finite"


class IfFinite:
    """The bind that chooses between two at each run.

    Args:
        finite: The bind for data whose sum is finite.
        others: The bind for other data; it writes the same results.
        source: The data, dense float32.
    """

    def __init__(self, finite: Bind, others: Bind, source: Value) -> None:
        self._finite, self._others, self._source = finite, others, source

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        finite, others = self._finite(buffers), self._others(buffers)
        data = elements(buffers.array(self._source), DataType.F32)

        def run() -> None:
            # a sum is not finite if an element is not
            (finite if np.isfinite(np.add.reduce(data)) else others)()

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        both = *recorder.inner(self._finite), *recorder.inner(self._others)
        return _FINITE, FiniteData(*both, recorder.value(self._source))


class FiniteData(Data, frozen=True):
    """Both binds, and their source."""

    builder: str
    finite: Any
    other_builder: str
    others: Any
    source: int


@BUILDERS.builds(_FINITE, FiniteData)
def _if_finite(data: FiniteData, source: Source) -> IfFinite:
    value = source.value(data.source)
    if value.layout is not None or value.spec.dtype is not DType.FLOAT_32:
        raise RecipeError(
            f"'{value.name}' must be dense float32 to be searched for what is not finite"
        )
    finite = source.bind(data.builder, data.finite)
    return IfFinite(finite, source.bind(data.other_builder, data.others), value)
