"""High biases: constants that an activation never falls below, added in the next layer instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir import Node
from dovetail.quantization import Statistics
from dovetail_opset.ops.pooling import Rounding
from dovetail_quantizers.algorithms.channel_paths import POOLS
from dovetail_quantizers.algorithms.cle_pairs import Pair
from dovetail_quantizers.algorithms.linear_layer import TRANSPOSED, integers, is_standard, number

# Three deviations say little of values to come where the deviation is that of a few.
_ENOUGH = 1000


def can_absorb(pair: Pair) -> bool:
    """Return whether a constant less in the channels between is a constant less in the second's outputs.

    Beside a padding it is not, for zero stays zero there. Nor is it behind a sum over windows.
    """
    if is_standard(pair.second.node, *TRANSPOSED) or any(integers(pair.second.node, "pad_amount")):
        return False
    return all(_passes_constants(node) for node in pair.path)


def extract_qdq(
    pairs: Sequence[Pair], seen: Mapping[str, Statistics], deviations: float
) -> dict[Node, int]:
    """Absorbs the high biases of equalized pairs.

    The paper takes what lies some deviations below the mean, and calls it harmless to cut what is
    lower. Here nothing is cut that a sample held, and nothing is absorbed where a channel had less
    than a thousand values.

    Args:
        pairs: Those of a graph.
        seen: What was observed before they were equalized, by channel of a first layer's result.
        deviations: As many standard deviations below the mean.

    Returns:
        How many channels there are of it, by first layer.
    """
    counts: dict[Node, int] = {}
    for pair in pairs:
        found = seen.get(pair.first.node.outputs[0].name)
        if found is None or not can_absorb(pair) or found.mean.shape != pair.factors.shape:
            continue
        if found.count < _ENOUGH or not np.isfinite(found.mean_square).all():
            continue  # what is not finite calibration will name
        low = np.minimum(found.mean - deviations * np.sqrt(found.variance), found.minimum)
        high = np.maximum(low, 0) / pair.factors
        if high.any():
            pair.first.bias = pair.first.bias - high
            pair.second.bias = pair.second.bias + pair.second.response(high)
            counts[pair.first.node] = int(np.count_nonzero(high))
    return counts


def _passes_constants(node: Node) -> bool:
    if is_standard(node, "ReduceSum"):
        return False
    if is_standard(node, *POOLS):
        # a window that reaches beyond the input holds zeros, or less than the others
        padded = any(integers(node, "pad_amount"))
        return not padded and number(node, "rounding_mode") == Rounding.FLOOR
    return True
