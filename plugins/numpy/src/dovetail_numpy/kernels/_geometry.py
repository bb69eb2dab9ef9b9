"""The geometry of a convolution, and the division of its result into pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.kernels._calls import blocks

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shapes and parameters of a convolution over two axes or three; one axis becomes two.

    Attributes:
        x, out: Shapes (n, ..., c) and (n, ..., k).
        size, stride, dilation: Params of the window, for each spatial axis.
        pads: (before, after) for each spatial axis.
        groups: Number of groups of channels.
    """

    x: tuple[int, ...]
    out: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Pads
    groups: int

    @classmethod
    def of(cls, call: KernelCall, groups: int) -> Geometry:
        """Return the geometry of a call of a convolution or transposed convolution."""
        op = call.op
        x, out, size = call.spec(0).shape, call.outputs[0].shape, call.spec(1).shape[:-2]
        # TransposeConv1d and 2d have no dilation
        dilation = getattr(op, "dilation", np.ones(len(size), np.uint32))
        flat = (1,) * (2 - len(size))
        pads = tuple((int(before), int(after)) for before, after in op.pad_amount.reshape(-1, 2))
        return cls(
            (x[0], *flat, *x[1:]),
            (out[0], *flat, *out[1:]),
            (*flat, *size),
            (*flat, *_ints(op.stride)),
            (*flat, *_ints(dilation)),
            ((0, 0),) * len(flat) + pads,
            groups,
        )

    @property
    def is_pointwise(self) -> bool:
        """True if each position of the result depends on the same position of the input only."""
        is_one = all(f == s == 1 for f, s in zip(self.size, self.stride, strict=True))
        return is_one and not any(map(any, self.pads))

    @property
    def padded(self) -> tuple[int, ...]:
        """Shape of a padded image, (..., c)."""
        sizes = zip(self.x[1:-1], self.pads, strict=True)
        return (*(before + size + after for size, (before, after) in sizes), self.x[-1])


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive positions of an image.

    Attributes:
        index: A slice for each spatial axis.
        positions: The slice of the flattened spatial axes.
    """

    index: tuple[slice, ...]
    positions: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions along each axis."""
        return tuple(s.stop - s.start for s in self.index)

    @property
    def count(self) -> int:
        """Number of positions."""
        return int(self.positions.stop - self.positions.start)


def pieces(spatial: tuple[int, ...], most: int) -> Iterator[Piece]:
    """Yield all positions of an image in order, in whole rows of at most `most` positions."""
    inner = [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial) - 1)]
    axis = next((a for a, positions in enumerate(inner) if positions <= most), len(inner) - 1)
    start = 0
    for lead in np.ndindex(*spatial[:axis]):
        for rows in blocks(spatial[axis], max(1, most // inner[axis])):
            stop = start + (rows.stop - rows.start) * inner[axis]
            first = tuple(slice(i, i + 1) for i in lead)
            rest = tuple(slice(0, size) for size in spatial[axis + 1 :])
            yield Piece((*first, rows, *rest), slice(start, stop))
            start = stop


def _ints(values: Array | int) -> tuple[int, ...]:
    return tuple(int(v) for v in np.reshape(values, -1))
