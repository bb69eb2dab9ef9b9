"""The range estimator `adjusted`, the SDK's quantizer mode of this name."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_quantizers.estimators.extremes import Extremes
from dovetail_quantizers.estimators.target import Target
from dovetail_quantizers.grid import MINIMUM_RANGE

_FLOAT_MAX = float(np.finfo(np.float32).max)


class Adjusted:
    """Expands the greatest or lowers the minimum until zero is a point of the grid.

    The grid of the plain extremes is shifted by up to half a step for zero's sake, which clips one
    end. This range is expanded instead, at the end where less is needed, so that nothing clips. The
    reference tells no more than that one end is expanded where necessary.

    Args:
        bitwidth: Of the grid to come, 2 to 16.
        symmetric: Whether that grid is symmetric: it then clips nothing as it is.
        unsigned_symmetric: Whether a symmetric grid is unsigned where no value is below zero; it
            makes no difference here.

    Raises:
        ConfigError: The bitwidth is out of range.

    Source: SDK reference, "Quantization Modes", TF Adjusted.
    """

    def __init__(
        self, *, bitwidth: int = 8, symmetric: bool = False, unsigned_symmetric: bool = False
    ) -> None:
        self._target = Target(bitwidth, symmetric, unsigned_symmetric)
        self._extremes = Extremes()

    def observe(self, batch: Array) -> None:
        """Take the values of one run into account, any shape."""
        self._extremes.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the least and the greatest value, one of them moved out.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        minimum, maximum = self._extremes.range()
        # A range to one side of zero has zero at an end, a tiny one is widened by the grid itself.
        if self._target.symmetric or not minimum < 0 < maximum or maximum - minimum < MINIMUM_RANGE:
            return minimum, maximum
        steps = (1 << self._target.bitwidth) - 1
        ratio = -minimum / (maximum - minimum) * steps
        # The steps below zero are some of these; the scale is what both sides need with them.
        choices = {min(max(int(ratio) + more, 1), steps - 1) for more in (0, 1)}
        scale, below = min(
            (max(-minimum / below, maximum / (steps - below)), below) for below in choices
        )
        # Not past what a float32 holds, unless the values themselves are.
        moved = np.clip([-scale * below, scale * (steps - below)], -_FLOAT_MAX, _FLOAT_MAX)
        return min(float(moved[0]), minimum), max(float(moved[1]), maximum)
