"""Looking at the values of one tensor in one run: what of them counts, and what is beyond."""

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
    """What is to be seen in a tensor.

    Attributes:
        values: Those that count, or their ends if these will do.
        extent: Theirs, and what is beyond.
        is_bad: Whether there is NaN, or an infinity that nothing accounts for.
    """

    values: Array
    extent: ValueRange
    is_bad: bool


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """How a tensor is looked at.

    Attributes:
        counts: What counts.
        extremes_only: Whether the ends will do.
    """

    counts: RowFloor | Far | None
    extremes_only: bool

    def counting(self, values: Array) -> Array:
        """Return the values that count, but for NaN and infinities, which stay."""
        if isinstance(self.counts, RowFloor):
            return self.counts.counting(values)
        if isinstance(self.counts, Far):
            kept = (values > self.counts.below) & (values < self.counts.above)
            return values if kept.all() else values[kept | ~np.isfinite(values)]
        return values

    def at(self, values: Array) -> FilteredValues:
        """Look at values, of any shape."""
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
    # NaN survives both, an infinity one of them; no array of flags is made
    if not values.size:
        return values
    return np.array([values.min(), values.max()], values.dtype)
