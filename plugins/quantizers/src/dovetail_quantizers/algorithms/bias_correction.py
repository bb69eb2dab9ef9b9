"""The algorithm `bias-correction`: subtracts the mean error of each channel from its bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import counted
from dovetail.quantization import Layer, Refinement
from dovetail_opset import is_op
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import LINEAR
from dovetail_quantizers.algorithms.parameters import Count, ParameterizedAlgorithm

_NOT_CONSTANT = "the weight or the bias is not a constant"


@dataclass(frozen=True)
class BiasCorrection(ParameterizedAlgorithm):
    """Moves biases so that each output channel has the same mean as in the float network.

    Layers are corrected in order, each on its inputs in the quantized network with all earlier
    corrections: so a layer also compensates for errors of its inputs. A layer without a bias gets
    one.

    Attributes:
        samples: Number of samples to compare, from the first. Memory grows with it.

    Source: Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias
    Correction, appendix D (empirical bias correction).
    """

    name: ClassVar[str] = "bias-correction"

    samples: Count = 32

    def refine(self, work: Refinement) -> Sequence[str]:
        """Correct each layer and return notes on the corrections."""
        notes = []
        for each in work.weighted(self.samples):
            layer = each.layer
            if layer is None:
                if is_op(each.node, *LINEAR):
                    notes.append(f"{title(each.node)} is left out: {_NOT_CONSTANT}")
                continue
            error = _mean_error(layer)
            if not error.any():
                continue
            # accumulated() adds the stored bias, so the error is relative to it
            present = layer.quantized_bias
            bias = error if present is None else present.astype(np.float64) + error
            layer.set_bias(bias.astype(np.float32))
            done = "bias added" if present is None else "bias corrected"
            most = np.abs(error).max()
            count = counted(error.size, "channel")
            notes.append(f"{title(layer.node)}: {done}, by up to {most:.3g}, {count}")
        return notes or ("no layer has a mean error",)


def _mean_error(layer: Layer) -> NDArray[np.float64]:
    """Return the mean difference of the float outputs from the quantized ones, by channel."""
    count = layer.float_outputs[0].shape[-1]
    total, rows = np.zeros(count), 0
    for exact, near in zip(layer.float_outputs, layer.accumulated(), strict=True):
        total += (exact - near).reshape(-1, count).sum(axis=0, dtype=np.float64)
        rows += exact.size // max(count, 1)
    return total / max(rows, 1)
