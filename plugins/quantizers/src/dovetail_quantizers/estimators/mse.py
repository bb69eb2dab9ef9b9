"""The range estimator `mse`."""

from __future__ import annotations

from dovetail_quantizers.estimators._least_squares import LeastSquares


class Mse(LeastSquares):
    """Gives the range on whose grid the mean squared error of the values is least.

    Args:
        bitwidth: Of the grid to come, 2 to 16.
        symmetric: Whether that grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned where no value is below zero.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration; the search is ours.
    """
