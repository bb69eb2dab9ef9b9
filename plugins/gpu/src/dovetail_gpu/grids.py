"""Grids of fixed-point tensors, to which real numbers are rounded on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail_gpu.functions import name_of, number
from dovetail_gpu.layouts import is_encoded

_TO_GRID = ("Quantize", "Convert")


@dataclass(frozen=True, slots=True)
class Grid:
    """The real numbers of a fixed-point tensor: `(q + offset) * scale`.

    Attributes:
        scale, offset: float32, broadcastable to the shape of the tensor.
        low, high: The limits of q, in OpenCL C.
    """

    scale: Array
    offset: Array
    low: str
    high: str

    @property
    def is_one(self) -> bool:
        """True if all elements have the same scale and offset."""
        return self.scale.size == self.offset.size == 1


def grid_of(spec: Spec) -> Grid | None:
    """Return the grid of a tensor; None for others, and for values of code books."""
    encoding = spec.encoding
    if encoding is None or not is_encoded(spec) or not encoding.is_convertible:
        return None
    scale, offset = encoding.scales_and_offsets(spec.shape)
    low, high = spec.dtype.stored_range(encoding.bitwidth)
    return Grid(
        np.ascontiguousarray(scale, np.float32),
        np.ascontiguousarray(offset, np.float32),
        number(low),
        number(high),
    )


def target_grid(view: NodeView) -> Grid | None:
    """Return the grid to which a node rounds real numbers; None for other nodes."""
    return grid_of(view.outs[0]) if name_of(view) in _TO_GRID else None
