"""Sliding windows of convolution and pooling, for any number of spatial axes.

Activations are (n, *spatial, c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape
from dovetail_opset._shapes import ints

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides over the spatial axes.

    Attributes:
        size: Elements along each axis.
        stride: Steps between windows.
        pads: Elements (before, after) added to each axis.
        dilation: Distance between the elements of a window.
        ceil: Whether a last window may reach beyond the padding.
    """

    size: Shape
    stride: Shape
    pads: Pairs
    dilation: Shape = field(default=())
    ceil: bool = False

    @classmethod
    def of(
        cls,
        size: Sequence[int] | Array,
        stride: Array | int,
        pads: Array,
        dilation: Array | int = 1,
        *,
        ceil: bool = False,
    ) -> Window:
        """Create a window from params of an op; those of one axis may be scalars, pads (2,).

        Raises:
            OpError: A stride, a dilation or a size is 0.
        """
        sizes = ints(size)
        strides, dilations = _along(stride, len(sizes)), _along(dilation, len(sizes))
        for name, values in (("filter", sizes), ("stride", strides), ("dilation", dilations)):
            if 0 in values:
                raise OpError(f"{name} sizes must be at least 1, but they are {values}")
        pairs = tuple((before, after) for before, after in np.reshape(pads, (-1, 2)).tolist())
        return cls(sizes, strides, pairs, dilations, ceil)

    @property
    def spans(self) -> Shape:
        """Size of a dilated window along each axis."""
        return tuple((f - 1) * d + 1 for f, d in zip(self.size, self.dilation, strict=True))

    def outputs(self, spatial: Shape) -> Shape:
        """Return the number of windows along each axis.

        Raises:
            OpError: A window does not fit the padded input.
        """
        spans = self.spans
        return tuple(self._count(axis, size, spans[axis]) for axis, size in enumerate(spatial))

    def padded(self, x: Array, value: float = 0) -> Array:
        """Pad the spatial axes of (n, *spatial, c) with a constant."""
        return _pad(x, self.pads, value)

    def cropped(self, x: Array) -> Array:
        """Remove the padding of (n, *spatial, c)."""
        kept = (
            slice(before, size - after)
            for size, (before, after) in zip(x.shape[1:-1], self.pads, strict=True)
        )
        return x[(slice(None), *kept)]

    def taps(self, counts: Shape) -> Iterator[tuple[slice, ...]]:
        """Yield the index of each element of a window in all windows, in order.

        Args:
            counts: Number of windows along each axis.

        Yields:
            The index into a padded (n, *spatial, c) that results in (n, *counts, c).
        """
        for tap in np.ndindex(*self.size):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            positions = (
                slice(start, start + count * stride, stride)
                for start, count, stride in zip(starts, counts, self.stride, strict=True)
            )
            yield (slice(None), *positions)

    def views(self, x: Array, overhang: float = 0) -> Array:
        """Return all windows of an already padded (n, *spatial, c) as (n, *out, c, *size).

        Args:
            x: From `padded`.
            overhang: Value beyond the padding, for the last window in ceil mode.
        """
        axes = tuple(range(1, x.ndim - 1))
        if self.ceil:
            x = _pad(x, tuple(self._overhangs(x.shape[1:-1])), overhang)
        found = np.lib.stride_tricks.sliding_window_view(x, self.spans, axes)
        steps = tuple(slice(None, None, s) for s in self.stride)
        taps = tuple(slice(None, None, d) for d in self.dilation)
        return found[(slice(None), *steps, slice(None), *taps)]

    def _count(self, axis: int, size: int, span: int) -> int:
        padded = size + sum(self.pads[axis])
        room, stride = padded - span, self.stride[axis]
        if room < 0:
            raise OpError(
                f"a window of {span} does not fit spatial axis {axis}, which has "
                f"{size} elements and {padded} with padding"
            )
        return (-(-room // stride) if self.ceil else room // stride) + 1

    def _overhangs(self, padded: Shape) -> list[tuple[int, int]]:
        found = []
        for size, span, stride in zip(padded, self.spans, self.stride, strict=True):
            last_end = -(-(size - span) // stride) * stride + span
            found.append((0, last_end - size))
        return found


def _along(values: Array | int, axes: int) -> Shape:
    """Return one number for each axis; a scalar is that of all."""
    found = ints(np.ravel(values))
    return found if len(found) == axes else ints(np.broadcast_to(values, axes))


def _pad(x: Array, pairs: Pairs, value: float) -> Array:
    if not any(map(any, pairs)):
        return x
    return np.pad(x, ((0, 0), *pairs, (0, 0)), constant_values=value)
