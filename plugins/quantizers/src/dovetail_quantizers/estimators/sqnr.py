"""The range estimator `sqnr`."""

from __future__ import annotations

from dovetail_quantizers.estimators._least_squares import LeastSquares


class Sqnr(LeastSquares):
    """Maximizes the signal-to-quantization-noise ratio.

    It returns the range of `mse`: the power of the signal is constant, so the ratio is largest
    where the error is smallest.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative.
        bins: Of the histogram.

    Raises:
        ConfigError: A parameter is out of range.

    Source: SDK reference, qairt-quantizer, --act_quantizer_calibration.
    """
