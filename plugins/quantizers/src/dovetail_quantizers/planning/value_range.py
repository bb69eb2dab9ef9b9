"""The range of a tensor: values that count for it, and values that represent infinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Tensor
from dovetail.ops import Range

# Numbers from here represent infinity: masks, or the border of a maximum pool.
HUGE = 1e30
# The largest float16: the border of a maximum pool of this type ends there.
FLOAT16_MAX = float(np.finfo(np.float16).max)

# Masks that a model quantizes as far as this are added: the sums of their ranges are no float32.
_FARTHEST = float(np.finfo(np.float32).max)

# Minimum distance of a number that represents infinity from all other values. After a Softmax it is
# exp(-16) = 1e-7 of the maximum: a thousand of them sum up to 0.0001.
MARGIN = 16.0

# Half of the smallest common mask value (-10000), to recognize sums with it. Rows that are entirely
# below are masked as a whole: they do not count.
MASK = 5e3


class ValueRange(NamedTuple):
    """The range of the values of one or more tensors.

    Attributes:
        minimum: The smallest value that does not represent infinity.
        maximum: The largest value that does not represent infinity.
        below: Whether some values represent minus infinity.
        above: Whether some values represent infinity.
    """

    minimum: float
    maximum: float
    below: bool = False
    above: bool = False

    @property
    def has_infinity(self) -> bool:
        """True if some values represent an infinity."""
        return self.below or self.above

    def joined(self, other: ValueRange) -> ValueRange:
        """Return the union of two ranges."""
        return ValueRange(
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.below or other.below,
            self.above or other.above,
        )

    def reaching(self, across: float) -> Range:
        """Return a range with room for values that represent infinity.

        Args:
            across: Their minimum distance from zero, so that consumers see them far away.
        """
        minimum, maximum = self.minimum, self.maximum
        across = min(across, _FARTHEST)
        if self.below:
            minimum = min(minimum - MARGIN, -across)
        if self.above:
            maximum = max(maximum + MARGIN, across)
        return minimum, maximum


@dataclass(frozen=True, slots=True)
class Far:
    """The limits from which numbers represent an infinity.

    Attributes:
        below: Numbers up to this one represent minus infinity.
        above: Numbers from this one represent infinity.
    """

    below: float = -HUGE
    above: float = HUGE


EVERYTHING_COUNTS = Far()


def values_of(tensor: Tensor) -> NDArray[np.float32]:
    """Return the values of a static tensor as float32."""
    return np.asarray(tensor.values(), np.float32)


def value_range_of(values: Array, far: Far = EVERYTHING_COUNTS) -> ValueRange:
    """Return the range of numbers of any shape; 0 to 0 if all represent infinities."""
    if not values.size:
        return ValueRange(0.0, 0.0)
    minimum, maximum = float(values.min()), float(values.max())
    below, above = minimum <= far.below, maximum >= far.above
    if below or above:
        kept = values[(values > far.below) & (values < far.above)]
        minimum, maximum = (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)
    return ValueRange(minimum, maximum, below, above)


def span(ends: Range) -> float:
    """Return the length of a range that is widened to contain zero."""
    return max(ends[1], 0.0) - min(ends[0], 0.0)


@dataclass(frozen=True, slots=True)
class RowFloor:
    """The values that count in a tensor that only a Softmax or an Exp reads.

    Attributes:
        axis: The axis of the Softmax; None for an Exp, for which all values are one row.
        depth: Distance below the maximum of a row from which values no longer matter.
    """

    axis: int | None
    depth: float

    def counting(self, values: Array) -> Array:
        """Return the values that count, clipped at the floor of their row; NaN stays.

        If all rows are masked, they count as the floor of a row of zeros.
        """
        if not values.size:
            return values
        depth = values.dtype.type(self.depth)
        maximum = values.max(axis=self.axis, keepdims=True)
        masked = maximum <= -MASK  # except NaN
        if masked.all():
            return np.asarray(np.maximum(values, -depth))
        raised = np.maximum(values, maximum - depth)
        if not masked.any():
            return np.asarray(raised)
        return np.asarray(raised[np.broadcast_to(~masked, raised.shape)])
