"""Range estimators: they observe the values of a tensor and choose its range."""

from dovetail_quantizers.estimators.adjusted import Adjusted
from dovetail_quantizers.estimators.enhanced import Enhanced
from dovetail_quantizers.estimators.entropy import Entropy
from dovetail_quantizers.estimators.histogram import Bins, Histogram
from dovetail_quantizers.estimators.min_max import MinMax
from dovetail_quantizers.estimators.modes import QUANTIZER_MODES, QuantizerMode
from dovetail_quantizers.estimators.mse import Mse
from dovetail_quantizers.estimators.percentile import Percentile
from dovetail_quantizers.estimators.sqnr import Sqnr

__all__ = [
    "QUANTIZER_MODES",
    "Adjusted",
    "Bins",
    "Enhanced",
    "Entropy",
    "Histogram",
    "MinMax",
    "Mse",
    "Percentile",
    "QuantizerMode",
    "Sqnr",
]
