"""Which values of a tensor count for its range, where not all of them do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array

# Half of the least number that masks are made of (-10000), so that it is found though something
# is added to it. Rows that lie beyond it as a whole are masked as a whole: they do not count.
MASK = 5e3


@dataclass(frozen=True, slots=True)
class RowFloor:
    """What counts of a tensor that only a Softmax reads.

    Attributes:
        axis: Along which the Softmax takes rows.
        depth: So far below the greatest value of its row, a value is as good as any lesser one.
    """

    axis: int
    depth: float

    def counting(self, values: Array) -> Array:
        """Return the values that count, raised to the floor of their row; NaN stays."""
        if not values.size:
            return values
        maximum = values.max(axis=self.axis, keepdims=True)
        raised = np.maximum(values, maximum - values.dtype.type(self.depth))
        masked = maximum <= -MASK  # not of NaN
        if masked.all() or not masked.any():
            return values if masked.all() else raised
        return np.asarray(raised[np.broadcast_to(~masked, raised.shape)])
