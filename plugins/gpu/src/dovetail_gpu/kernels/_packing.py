"""Packing of weights in blocks of columns, on the host or by the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import Element
from dovetail_gpu.launching import GROUP, Argument, Launch
from dovetail_gpu.programs import Source, type_lines

_CHUNK = 8  # channels that a work item copies, where there are many small cores


@dataclass(frozen=True, slots=True)
class Packing:
    """Positions of the elements of matrices in a tensor.

    Attributes:
        shape: Matrices, groups, taps along two axes, channels of a tap, columns of a group.
        strides: Elements from one to the next along each of these axes.
        start: Index of the first element.
        column_axis: The axis of the tensor along which columns are counted.
    """

    shape: tuple[int, int, int, int, int, int]
    strides: tuple[int, int, int, int, int, int]
    start: int = 0
    column_axis: int = -1

    @classmethod
    def of_matrices(
        cls, count: int, depth: int, columns: int, *, transposed: bool = False
    ) -> Packing:
        """Return the packing of dense matrices (count, depth, columns), or with axes swapped."""
        row, column = (1, depth) if transposed else (columns, 1)
        strides = (depth * columns, 0, 0, 0, row, column)
        return cls((count, 1, 1, 1, depth, columns), strides, 0, -2 if transposed else -1)

    @classmethod
    def of_filters(cls, shape: Sequence[int], groups: int) -> Packing:
        """Return the packing of filters (height, width, channels of a group, columns)."""
        height, width, channels, columns = shape
        line = channels * columns
        return cls(
            (1, groups, height, width, channels, columns // groups),
            (0, columns // groups, width * line, line, columns, 1),
        )

    def count(self, block: int) -> int:
        """Return the number of packed elements."""
        return self.shape[0] * math.prod(self.shape[2:5]) * self.columns(block)

    def columns(self, block: int) -> int:
        """Return the number of columns of all groups, with gaps."""
        return self.shape[1] * -(-self.shape[-1] // block) * block

    def packed(self, real: Array, block: int) -> Array:
        """Return the elements of a tensor as (matrices, groups, blocks, taps * channels, block)."""
        matrices, groups, *_, columns = self.shape
        depth, blocks = math.prod(self.shape[2:5]), -(-columns // block)
        found = np.zeros((matrices, groups, depth, blocks * block), real.dtype)
        if 0 not in self.shape:
            steps = [n * real.itemsize for n in self.strides]
            view = np.lib.stride_tricks.as_strided(
                real.reshape(-1)[self.start :], self.shape, steps
            )
            found[..., :columns] = view.reshape(matrices, groups, depth, columns)
        split = found.reshape(matrices, groups, depth, blocks, block)
        return np.ascontiguousarray(split.swapaxes(2, 3))

    def by_column(self, values: Array, shape: Sequence[int], block: int) -> Array:
        """Return values of columns, packed as (groups * blocks * block,), with zeros in the gaps.

        Args:
            values: Broadcastable to the tensor's shape, and different along `column_axis` alone.
            shape: The tensor's shape.
            block: Columns of a block.
        """
        groups, columns = self.shape[1], self.shape[-1]
        found = np.zeros((groups, -(-columns // block) * block), values.dtype)
        if found.size and 0 not in shape:
            first = self.start + np.arange(groups)[:, None] * self.strides[1]
            at = first + np.arange(columns) * self.strides[-1]
            found[:, :columns] = np.broadcast_to(values, shape)[np.unravel_index(at, tuple(shape))]
        return found.reshape(-1)

    def launch(self, source: Value, target: Value, block: int, element: Element) -> Launch:
        """Return the launch that packs a tensor of the device, as `packed` does."""
        eights = self.shape[0] * self.columns(block) // 8
        is_cpu, channels = current().engine.device.is_cpu, self.shape[4]
        chunk = max(1, channels if is_cpu else min(_CHUNK, channels))
        numbers = (eights, block, *self.shape[1:], self.start, *self.strides, chunk)
        program = Source.of("arrange", {}, type_lines(element))
        arguments: list[Argument] = [source, target, *numbers]
        size = (eights, math.prod(self.shape[2:4]), -(-channels // chunk))
        return Launch(program, "blocks", arguments, size, (1 if is_cpu else GROUP, 1, 1))
