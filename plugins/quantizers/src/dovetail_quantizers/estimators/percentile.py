"""The range estimator `percentile`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import ConfigError
from dovetail.ir import Array
from dovetail_quantizers.estimators.histogram import DEFAULT_BINS, Bins, Histogram


class Percentile:
    """Clips the values beyond a percentile at both ends.

    With 99.99, 0.01 % of the values are below the range, and 0.01 % above.

    Args:
        percentile: From 90 to 100; 100 clips nothing.
        bins: Of the histogram; the error of the result is at most one bin.

    Raises:
        ConfigError: The percentile or the number of bins is out of range.

    Source: SDK reference, qairt-quantizer, --percentile_calibration_value.
    """

    def __init__(self, *, percentile: float = 99.99, bins: int = DEFAULT_BINS) -> None:
        number = isinstance(percentile, int | float) and not isinstance(percentile, bool)
        if not number or not 90 <= percentile <= 100:
            raise ConfigError(
                f"the percentile is {percentile}", hint="pass 90 to 100, such as 99.99"
            )
        self._percentile = float(percentile)
        self._histogram = Histogram(bins=bins)

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._histogram.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the two percentiles.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        bins = self._histogram.contents()
        if self._percentile == 100:
            return bins.minimum, bins.maximum
        edges, below = _cumulative(bins)
        out = below[-1] * (1 - self._percentile / 100)
        minimum, maximum = np.interp([out, below[-1] - out], below, edges)
        return float(minimum), float(maximum)


def _cumulative(bins: Bins) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return edges and the number of values below each; zeros are a bin without width."""
    edges, counts = bins.edges, bins.counts
    if bins.zeros:
        # Zero is an edge: of a bin, or the minimum or the maximum.
        index = int(np.searchsorted(edges, 0.0))
        edges, counts = np.insert(edges, index, 0.0), np.insert(counts, index, bins.zeros)
    return edges, np.concatenate([[0.0], np.cumsum(counts)])
