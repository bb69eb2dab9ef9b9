"""Integer arithmetic with multipliers in fixed point, for comparison with LiteRT's kernels."""

from dovetail_numpy.integer.fixed.definitions import Requantization, definitions

__all__ = ["Requantization", "definitions"]
