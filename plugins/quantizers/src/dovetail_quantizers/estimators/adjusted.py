"""The range estimator `adjusted`, the SDK's quantizer mode of that name."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail_quantizers.estimators.extremes import Extremes
from dovetail_quantizers.estimators.target import Target
from dovetail_quantizers.grid import MINIMUM_RANGE

_FLOAT_MAX = float(np.finfo(np.float32).max)


class Adjusted:
    """Expands one end of the range until zero is a point of the grid.

    The grid of the plain extremes is shifted by up to half a step, so that zero is a point; this
    clips one end. This estimator expands the range instead, at the end that needs less, so nothing
    clips. The reference only says that one end is expanded if necessary.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric: then it never clips.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative; has no
            effect here.

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
        """Observe the values of one run, of any shape."""
        self._extremes.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum, one of them expanded.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        minimum, maximum = self._extremes.range()
        # A range on one side of zero ends at zero; a tiny range is widened by the grid.
        if self._target.symmetric or not minimum < 0 < maximum or maximum - minimum < MINIMUM_RANGE:
            return minimum, maximum
        steps = (1 << self._target.bitwidth) - 1
        ratio = -minimum / (maximum - minimum) * steps
        # Candidates for the number of steps below zero; the scale must fit both sides.
        choices = {min(max(int(ratio) + more, 1), steps - 1) for more in (0, 1)}
        scale, below = min(
            (max(-minimum / below, maximum / (steps - below)), below) for below in choices
        )
        # Within float32, unless the values themselves are not.
        moved = np.clip([-scale * below, scale * (steps - below)], -_FLOAT_MAX, _FLOAT_MAX)
        return min(float(moved[0]), minimum), max(float(moved[1]), maximum)
