"""Values of a tensor that count for its range, if not all do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array

# Half of the smallest common mask value (-10000), to recognize sums with it. Rows that are entirely
# below are masked as a whole: they do not count.
MASK = 5e3


@dataclass(frozen=True, slots=True)
class RowFloor:
    """The values that count in a tensor that only a Softmax reads.

    Attributes:
        axis: The axis of the Softmax.
        depth: Distance below the maximum of a row from which values no longer matter.
    """

    axis: int
    depth: float

    def counting(self, values: Array) -> Array:
        """Return the values that count, clipped at the floor of their row; NaN stays."""
        if not values.size:
            return values
        maximum = values.max(axis=self.axis, keepdims=True)
        raised = np.maximum(values, maximum - values.dtype.type(self.depth))
        masked = maximum <= -MASK  # except NaN
        if masked.all() or not masked.any():
            return values if masked.all() else raised
        return np.asarray(raised[np.broadcast_to(~masked, raised.shape)])
