"""The range estimator `mse`."""

from __future__ import annotations

from dovetail_quantizers.estimators._least_squares import LeastSquares


class Mse(LeastSquares):
    """Minimizes the mean squared error of the quantized values.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration; the search is ours.
    """
