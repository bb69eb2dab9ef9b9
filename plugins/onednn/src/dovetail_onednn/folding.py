"""Tensors with fewer axes: adjacent axes that all operands treat alike are joined.

With fewer axes the library has fast code for more cases, and longer loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import msgspec

from dovetail.ir import Shape
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import aligned, images


class Folding(msgspec.Struct, frozen=True):
    """The joined axes of a result and of operands that broadcast to it.

    Attributes:
        shape: Shape of the result.
        axes: For each joined axis, its axes of the result; at least two.
    """

    shape: Shape
    axes: tuple[Shape, ...]

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

    @property
    def width(self) -> int:
        """Size of the last joined axis of the result."""
        return math.prod(self.shape[axis] for axis in self.axes[-1])

    def desc(self, shape: Shape) -> MemoryDesc:
        """Describe the result, or a dense operand.

        The last axis is the channels, which are second in the library's order.
        """
        full = aligned(shape, len(self.shape))
        return images([math.prod(full[axis] for axis in axes) for axes in self.axes])
