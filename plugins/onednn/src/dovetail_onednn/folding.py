"""Tensors with fewer axes: adjacent axes that all operands treat alike are joined.

With fewer axes the library has fast code for more cases, and longer loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from dovetail.ir import Array, Shape
from dovetail_numpy.kernels.byte_rows import positions_per_row
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import aligned, images


class Folding(msgspec.Struct, frozen=True):
    """The joined axes of a result and of operands that broadcast to it.

    Attributes:
        shape: Shape of the result.
        axes: For each joined axis, its axes of the result; at least two.
        repeats: Number of positions whose channels are one row of the last axis; operands have
            their channels as often.
    """

    shape: Shape
    axes: tuple[Shape, ...]
    repeats: int = 1

    @classmethod
    def of(cls, result: Shape, operands: Iterable[Shape]) -> Folding:
        """Return the folding that joins as many axes as these operands allow."""
        full = [aligned(shape, len(result)) for shape in operands]
        real = [axis for axis, size in enumerate(result) if size != 1]
        # adjacent axes can be joined if each operand has either both or none of them
        runs = itertools.groupby(real, lambda axis: tuple(s[axis] == result[axis] for s in full))
        axes = [tuple(run) for _, run in runs]
        # for an operand with an element per column the library is slower with two axes than with
        # three: 784 rows of 72 channels took 13 us and 8
        rank = 3 if len(axes) == 2 else 2
        return cls(result, (*((),) * (rank - len(axes)), *axes))

    @classmethod
    def repeating(cls, result: Shape, operands: Sequence[Shape]) -> Folding:
        """Return the folding of a result and operands, repeated if these have few channels alone.

        The library starts anew at each row: with three numbers for each channel, 3136 rows of 64
        took 73 us, and 392 rows of 512, 26.
        """
        found, count = cls.of(result, operands), math.prod(result)
        channels = max(found.width, 1)
        others = [found.desc(each).dims for each in operands if 1 < math.prod(each) < count]
        is_row = others and all(math.prod(dims) == channels == dims[1] for dims in others)
        if not is_row:
            return found
        return cls(result, found.axes, positions_per_row(count // channels, channels))

    def repeated(self, values: Array) -> Array:
        """Return numbers of channels, (c,) or one for all, as the last joined axis has them."""
        return np.tile(values, self.repeats) if values.size > 1 else values

    @property
    def width(self) -> int:
        """Size of the last joined axis of the result."""
        return self.repeats * math.prod(self.shape[axis] for axis in self.axes[-1])

    def desc(self, shape: Shape) -> MemoryDesc:
        """Describe the result, or a dense operand.

        The last axis is the channels, which are second in the library's order.
        """
        full = aligned(shape, len(self.shape))
        *sizes, rows, last = (math.prod(full[axis] for axis in axes) for axes in self.axes)
        if self.repeats > 1 and last > 1:
            rows, last = -(-rows // self.repeats), last * self.repeats
        return images([*sizes, rows, last])
