"""Weights of products: packed in blocks of columns, on the host or by the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._product import GROUP, operand_element
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Argument, Launch
from dovetail_gpu.layouts import layout_for, read
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.transfers import to_device


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the elements of matrices lie in a tensor.

    Attributes:
        shape: Matrices, groups, taps along two axes, channels of a tap, columns of a group.
        strides: Elements from one to the next along each of these axes.
        start: Index of the first element.
    """

    shape: tuple[int, int, int, int, int, int]
    strides: tuple[int, int, int, int, int, int]
    start: int = 0

    @classmethod
    def of_matrices(
        cls, count: int, depth: int, columns: int, *, transposed: bool = False
    ) -> Packing:
        """Return the packing of dense matrices (count, depth, columns), or with axes swapped."""
        row, column = (1, depth) if transposed else (columns, 1)
        return cls((count, 1, 1, 1, depth, columns), (depth * columns, 0, 0, 0, row, column))

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
        return math.prod(self.shape[:-1]) * -(-self.shape[-1] // block) * block

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

    def launch(self, source: Value, target: Value, block: int, element: Element) -> Launch:
        """Return the launch that packs a tensor of the device, as `packed` does."""
        numbers = (self.count(block), block, *self.shape[1:], self.start, *self.strides)
        program = Source.of("arrange", {}, type_lines(element))
        arguments: list[Argument] = [source, target, *numbers]
        return Launch(program, "blocks", arguments, numbers[:1], (GROUP,))


def weights_of(
    call: KernelCall, packing: Packing, tile: Tile, element: Element, launches: list[Launch]
) -> Value:
    """Declare packed weights: a form of constants, or packed by the device in each run.

    Args:
        call: The call, whose input 1 has the weights.
        packing: Where they lie in it.
        tile: The tile of the product.
        element: Type of the result.
        launches: Where the launch that packs them is added.
    """
    stored = operand_element(element)
    layout = layout_for(stored, packing.count(tile.columns))
    if call.has_data(1):
        form = f"opencl.blocks {stored.text} {tile.columns} {packing}"
        return call.read_packed(1, form, functools.partial(_form, stored, packing, tile), layout)
    given, room = read(call, 1, stored), call.scratch(layout.nbytes, layout)
    launches.append(packing.launch(given, room, tile.columns, stored))
    return room


def _form(
    element: Element,
    packing: Packing,
    tile: Tile,
    arrays: Sequence[Array | None],
    specs: Sequence[Spec | None],
) -> Array:
    (stored,), (spec,) = arrays, specs
    if stored is None or spec is None:
        raise AssertionError("a product without weights")
    return packing.packed(to_device(stored, spec, element), tile.columns)
