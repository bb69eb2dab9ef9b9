"""What a tensor holds: the ends of its finite values, and whether some stand for infinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dovetail.ir import Array

# From here on a number stands for an infinity: a mask, or what fills the border of a maximum pool.
HUGE = 1e30

# What stands for an infinity lies at least so far beyond every other value. Before a Softmax that
# leaves it exp(-16) = 1e-7 of the greatest: a thousand of them are a quarter of a thousandth.
MARGIN = 16.0

Range = tuple[float, float]


class ValueRange(NamedTuple):
    """What was found in a tensor, or in several.

    Attributes:
        minimum: The least value that stands for itself.
        maximum: The greatest such value.
        below: Whether some values stand for minus infinity.
        above: Whether some stand for infinity.
    """

    minimum: float
    maximum: float
    below: bool = False
    above: bool = False

    @property
    def has_infinity(self) -> bool:
        """Whether some values stand for an infinity."""
        return self.below or self.above

    def joined(self, other: ValueRange) -> ValueRange:
        """Return that of both together."""
        return ValueRange(
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.below or other.below,
            self.above or other.above,
        )

    def reaching(self, across: float) -> Range:
        """Return a range with room for what stands for infinity.

        Args:
            across: How far from zero it must lie, for those who read it to find it far away.
        """
        minimum, maximum = self.minimum, self.maximum
        if self.below:
            minimum = min(minimum - MARGIN, -across)
        if self.above:
            maximum = max(maximum + MARGIN, across)
        return minimum, maximum


@dataclass(frozen=True, slots=True)
class Far:
    """From where on numbers stand for an infinity.

    Attributes:
        below: These and lesser ones stand for minus infinity.
        above: These and greater ones stand for infinity.
    """

    below: float = -HUGE
    above: float = HUGE


EVERYTHING_COUNTS = Far()


def value_range_of(values: Array, far: Far = EVERYTHING_COUNTS) -> ValueRange:
    """Return the extent of numbers, any shape; 0 to 0 where none stands for itself."""
    if not values.size:
        return ValueRange(0.0, 0.0)
    minimum, maximum = float(values.min()), float(values.max())
    below, above = minimum <= far.below, maximum >= far.above
    if below or above:
        kept = values[(values > far.below) & (values < far.above)]
        minimum, maximum = (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)
    return ValueRange(minimum, maximum, below, above)


def span(ends: Range) -> float:
    """Return the length of a range that is widened to hold zero."""
    return max(ends[1], 0.0) - min(ends[0], 0.0)
