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


class Extent(NamedTuple):
    """What was found in a tensor, or in several.

    Attributes:
        least: The least value that stands for itself.
        greatest: The greatest such value.
        below: Whether some values stand for minus infinity.
        above: Whether some stand for infinity.
    """

    least: float
    greatest: float
    below: bool = False
    above: bool = False

    @property
    def is_far(self) -> bool:
        """Whether some values stand for an infinity."""
        return self.below or self.above

    def joined(self, other: Extent) -> Extent:
        """Gives that of both together."""
        return Extent(
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.below or other.below,
            self.above or other.above,
        )

    def reaching(self, across: float) -> Range:
        """Gives a range with room for what stands for infinity.

        Args:
            across: How far from zero it must lie, for those who read it to find it far away.
        """
        least, greatest = self.least, self.greatest
        if self.below:
            least = min(least - MARGIN, -across)
        if self.above:
            greatest = max(greatest + MARGIN, across)
        return least, greatest


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


def extent_of(values: Array, far: Far = EVERYTHING_COUNTS) -> Extent:
    """Gives the extent of numbers, any shape; 0 to 0 where none stands for itself."""
    if not values.size:
        return Extent(0.0, 0.0)
    least, greatest = float(values.min()), float(values.max())
    below, above = least <= far.below, greatest >= far.above
    if below or above:
        kept = values[(values > far.below) & (values < far.above)]
        least, greatest = (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)
    return Extent(least, greatest, below, above)


def span(ends: Range) -> float:
    """Gives the length of a range that is widened to hold zero."""
    return max(ends[1], 0.0) - min(ends[0], 0.0)
