"""Tensors seen with fewer axes: neighbours that all operands treat alike become one.

The fewer axes, the more of them the library has fast code for, and the longer its loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.ir import Shape
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import aligned, images


@dataclass(frozen=True, slots=True)
class Folding:
    """How the axes of a result, and of operands that broadcast to it, are joined.

    Attributes:
        made: The result's shape.
        axes: For each joined axis, which axes of the result it is made of; two at least.
    """

    made: Shape
    axes: tuple[Shape, ...]

    @classmethod
    def of(cls, made: Shape, operands: Iterable[Shape]) -> Folding:
        """Join as many axes as these operands allow."""
        full = [aligned(shape, len(made)) for shape in operands]
        real = [axis for axis, extent in enumerate(made) if extent != 1]
        # neighbours can be one axis where each operand has either both or none of them
        runs = itertools.groupby(real, lambda axis: tuple(s[axis] == made[axis] for s in full))
        axes = [tuple(run) for _, run in runs]
        # for an operand by column the library is slower with two axes than with three: 784 rows
        # of 72 channels took 13 us and 8
        least = 3 if len(axes) == 2 else 2
        return cls(made, (*((),) * (least - len(axes)), *axes))

    @property
    def width(self) -> int:
        """Elements of the result along the last joined axis."""
        return math.prod(self.made[axis] for axis in self.axes[-1])

    def desc(self, shape: Shape) -> MemoryDesc:
        """Describe the result, or a dense operand.

        The last axis counts as the channels, which the library wants second.
        """
        full = aligned(shape, len(self.made))
        return images([math.prod(full[axis] for axis in axes) for axes in self.axes])
