"""Selection of the values of a tensor that count for its range."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail_quantizers.planning.counting import RowFloor
from dovetail_quantizers.planning.value_range import HUGE, Far, ValueRange

NOTHING = ValueRange(math.inf, -math.inf)


@dataclass(frozen=True, slots=True)
class FilteredValues:
    """The values of a tensor in one run.

    Attributes:
        values: The values that count, or only their extremes.
        range: Their range, and whether some values represent infinities.
        is_bad: Whether there is NaN, or an unexpected infinity.
    """

    values: Array
    range: ValueRange
    is_bad: bool


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """A filter for the values of a tensor.

    Attributes:
        counts: Which values count; None for all.
        extremes_only: Whether only the extremes are needed.
    """

    counts: RowFloor | Far | None
    extremes_only: bool

    def counting(self, values: Array) -> Array:
        """Return the values that count, and all NaN and infinities."""
        if isinstance(self.counts, RowFloor):
            return self.counts.counting(values)
        if isinstance(self.counts, Far):
            kept = (values > self.counts.below) & (values < self.counts.above)
            return values if kept.all() else values[kept | ~np.isfinite(values)]
        return values

    def at(self, values: Array) -> FilteredValues:
        """Return the filtered values of an array of any shape."""
        kept = self.counting(values)
        below = above = False
        if isinstance(self.counts, Far) and kept.size < values.size:
            below = bool((values <= self.counts.below).any())
            above = bool((values >= self.counts.above).any())
        ends = _ends(kept)
        # a comparison with NaN is false, too
        is_bad = not bool((np.abs(ends) < HUGE).all())
        if is_bad:
            below, above = below or bool(ends[0] <= -HUGE), above or bool(ends[1] >= HUGE)
            kept = kept[np.abs(kept) < HUGE]
            ends = _ends(kept)
        minimum, maximum = (float(ends[0]), float(ends[1])) if ends.size else NOTHING[:2]
        if self.extremes_only:
            kept = ends
        return FilteredValues(kept, ValueRange(minimum, maximum, below, above), is_bad)


def _ends(values: Array) -> Array:
    # NaN propagates through both, an infinity through one; no mask array is allocated
    if not values.size:
        return values
    return np.array([values.min(), values.max()], values.dtype)
