"""The range estimator `min-max`, the SDK's default and its mode `tf`."""

from __future__ import annotations

from dovetail.ir import Array
from dovetail_quantizers.estimators.extremes import Extremes


class MinMax:
    """The smallest and the largest observed value.

    Source: SDK reference, "Quantization Modes", TF.
    """

    def __init__(self) -> None:
        self._extremes = Extremes()

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._extremes.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the minimum and the maximum.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        return self._extremes.range()
