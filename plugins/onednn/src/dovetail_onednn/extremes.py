"""Maxima and minima of rows with NaN, and with infinities alone: what the library ignores."""

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
from dovetail_onednn.nan_search import NanSearch
from dovetail_onednn.recipes import BUILDERS

_EXTREMES = "onednn.extremes"


class RowExtremes:
    """The bind of the maxima or minima of rows, as NumPy defines them.

    The library ignores some NaN, and the extreme of a row of infinities is the last finite number.

    Args:
        reduction: The bind of the library's reduction.
        values: Its source and its result, dense float32.
        search: The search for NaN in the source.
        is_largest: Whether they are maxima.
    """

    def __init__(
        self, reduction: Bind, values: tuple[Value, Value], search: NanSearch, *, is_largest: bool
    ) -> None:
        self._reduction, self._values, self._search = reduction, values, search
        self._is_largest = is_largest

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        reduction = self._reduction(buffers)
        data, result = (elements(buffers.array(v), DataType.F32) for v in self._values)
        rows, found = data.reshape(len(result), -1), self._search.bind(data)
        extreme, other, limit = _EXTREMES_OF[self._is_largest]

        def run() -> None:
            reduction()
            if found():
                extreme.reduce(rows, axis=1, out=result)
            elif other.reduce(result) == limit:
                where = result == limit
                result[where] = extreme.reduce(rows[where], axis=1)

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        inner, (source, target) = recorder.inner(self._reduction), map(recorder.value, self._values)
        search = self._search.record(recorder)
        return _EXTREMES, ExtremesData(*inner, source, target, search, self._is_largest)


_FINITE = np.finfo(np.float32)
# The function of two numbers, its opposite, and the result for rows of infinities.
_EXTREMES_OF: dict[bool, tuple[np.ufunc, np.ufunc, np.float32]] = {
    True: (np.maximum, np.minimum, _FINITE.min),
    False: (np.minimum, np.maximum, _FINITE.max),
}


class ExtremesData(Data, frozen=True):
    """A reduction, its source and result, the primitive of its `NanSearch`, and which it is."""

    builder: str
    reduction: Any
    source: int
    target: int
    search: int | None
    is_largest: bool


@BUILDERS.builds(_EXTREMES, ExtremesData)
def _row_extremes(data: ExtremesData, source: Source) -> RowExtremes:
    values = source.value(data.source), source.value(data.target)
    sizes = [value.nbytes for value in values]
    is_plain = all(v.layout is None and v.spec.dtype is DType.FLOAT_32 for v in values)
    if not is_plain or not all(sizes) or sizes[0] % sizes[1]:
        raise RecipeError(f"'{values[1].name}' cannot be the extremes of '{values[0].name}'")
    search = NanSearch.restored(data.search, source, values[0])
    reduction = source.bind(data.builder, data.reduction)
    return RowExtremes(reduction, values, search, is_largest=data.is_largest)
