"""High biases: lower bounds of activations, moved into the next layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir import Node
from dovetail.quantization import Statistics
from dovetail_opset.ops.pooling import Rounding
from dovetail_quantizers.algorithms.channel_paths import POOLS
from dovetail_quantizers.algorithms.cle_pairs import Pair
from dovetail_quantizers.algorithms.linear_layer import TRANSPOSED, integers, is_standard, number

# The deviation of a few values predicts little.
_ENOUGH = 1000


def can_absorb(pair: Pair) -> bool:
    """Return whether shifting the channels of a pair shifts the outputs of its second layer.

    Padding and sums over windows prevent this, because padded zeros do not shift.
    """
    if is_standard(pair.second.node, *TRANSPOSED) or any(integers(pair.second.node, "pad_amount")):
        return False
    return all(_passes_constants(node) for node in pair.path)


def move_high_biases(
    pairs: Sequence[Pair], seen: Mapping[str, Statistics], deviations: float
) -> dict[Node, int]:
    """Move the high biases of equalized pairs into the second layers.

    The paper moves the part that is some deviations below the mean, and accepts clipping of lower
    values. Here no value of a sample is clipped, and a channel needs a thousand values.

    Args:
        pairs: The pairs of a graph.
        seen: Statistics from before equalization, by channel of a first layer's output.
        deviations: Number of standard deviations below the mean.

    Returns:
        The number of changed channels, by first layer.
    """
    counts: dict[Node, int] = {}
    for pair in pairs:
        found = seen.get(pair.first.node.outputs[0].name)
        if found is None or not can_absorb(pair) or found.mean.shape != pair.factors.shape:
            continue
        if found.count < _ENOUGH or not np.isfinite(found.mean_square).all():
            continue  # calibration reports values that are not finite
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
        # a window beyond the input contains zeros, or fewer values
        padded = any(integers(node, "pad_amount"))
        return not padded and number(node, "rounding_mode") == Rounding.FLOOR
    return True
