"""The common part of the estimators that minimize the squared error."""

from __future__ import annotations

from functools import partial

from dovetail.ir import Array
from dovetail_quantizers.estimators.histogram import DEFAULT_BINS, Histogram
from dovetail_quantizers.estimators.search import cheapest_range
from dovetail_quantizers.estimators.squared_error import squared_error
from dovetail_quantizers.estimators.target import Target

# Bins for the first search: each is about a step of an 8-bit grid.
_ROUGH_BINS = 512


class LeastSquares:
    """A search for the range with the minimum squared error, with a weight for clipping."""

    _clipping_weight = 1.0

    def __init__(
        self,
        *,
        bitwidth: int = 8,
        symmetric: bool = False,
        unsigned_symmetric: bool = False,
        bins: int = DEFAULT_BINS,
    ) -> None:
        self._target = Target(bitwidth, symmetric, unsigned_symmetric)
        self._histogram = Histogram(bins=bins)

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._histogram.observe(batch)

    def range(self) -> tuple[float, float]:
        """Return the best range; the whole range if no other is better.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """
        bins = self._histogram.contents()
        many = bins.counts.size > _ROUGH_BINS
        rough = self._histogram.contents(_ROUGH_BINS) if many else None
        cost = partial(squared_error, clipping_weight=self._clipping_weight)
        scheme = self._target.scheme(bins.minimum)
        return cheapest_range(bins, cost, self._target.bitwidth, scheme, rough=rough)
