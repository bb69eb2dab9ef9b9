"""The range estimator `sqnr`."""

from __future__ import annotations

from dovetail_quantizers.estimators._least_squares import LeastSquares


class Sqnr(LeastSquares):
    """Gives the range on whose grid the signal-to-quantization-noise ratio is greatest.

    That is the range of `mse`, and by the same search: the power of the signal is what it is, so
    the ratio is greatest where the error is least.

    Args:
        bitwidth: Of the grid to come, 2 to 16.
        symmetric: Whether that grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned where no value is below zero.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration.
    """
