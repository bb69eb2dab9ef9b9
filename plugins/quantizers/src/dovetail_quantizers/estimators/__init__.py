"""Range estimators: they observe the values of a tensor and choose its range."""

from dovetail_quantizers.estimators.entropy import Entropy
from dovetail_quantizers.estimators.extremes import Adjusted, MinMax
from dovetail_quantizers.estimators.histogram import Bins, Histogram
from dovetail_quantizers.estimators.least_squares import Enhanced, Mse, Sqnr
from dovetail_quantizers.estimators.percentile import Percentile

__all__ = [
    "Adjusted",
    "Bins",
    "Enhanced",
    "Entropy",
    "Histogram",
    "MinMax",
    "Mse",
    "Percentile",
    "Sqnr",
]
