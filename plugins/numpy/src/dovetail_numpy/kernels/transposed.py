"""Transposed convolutions: a matrix product for all taps of some positions, then additions.

The matrix is (c / groups, taps * k / groups), so the channels of a position are read once. The
target consists of cells of `stride` elements along each axis: neighboring taps that fall into one
cell are added together, in long dense rows instead of short ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels._calls import (
    Call,
    Floats,
    constant,
    copy,
    fill,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._epilogue import Epilogue, can_fuse
from dovetail_numpy.kernels._geometry import Geometry, Piece, pieces
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset import STANDARD

# Floats of products at a time: 1 MB, the second-level cache, as in `convolution`.
PRODUCTS = 1 << 18


@KERNELS.register(STANDARD, "TransposeConv1d", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "TransposeConv2d", can_fuse=can_fuse)
@KERNELS.register(STANDARD, "TransposeConv3d", can_fuse=can_fuse)
def transposed_convolution(call: KernelCall) -> Step | None:
    """Run TransposeConv1d to TransposeConv3d with constant filters."""
    if not call.has_data(1) or not is_float32(call):
        return None
    geometry = Geometry.of(call, call.op.group)
    channels, each = call.spec(1).shape[-2:]
    groups, taken = geometry.groups, channels // geometry.groups

    def as_matrices(arrays: Sequence[Any], _: object) -> Array:
        taps = arrays[0].reshape(-1, groups, taken, each)
        return np.ascontiguousarray(taps.transpose(1, 2, 0, 3)).reshape(groups, taken, -1)

    matrices = call.packed(1, f"cpu.transposed.{groups}", as_matrices)
    x = call.read(0)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    return call.step(_Spread(call, geometry, matrices, (x, out), epilogue).bind)


@dataclass(frozen=True, slots=True)
class _Share:
    """Neighboring taps of one cell: the cell, relative to the position's, and the part of it."""

    taps: slice
    cell: int
    inside: slice


@dataclass(frozen=True, slots=True)
class _Cells:
    """One axis of the target.

    Attributes:
        shares: The taps of a window by cell.
        count: Number of cells.
        stride: Elements of a cell.
        kept: The elements of the output.
    """

    shares: tuple[_Share, ...]
    count: int
    stride: int
    kept: slice

    @classmethod
    def of(cls, g: Geometry, axis: int) -> _Cells:
        """Return the cells of a spatial axis."""
        taps, stride, dilation = g.size[axis], g.stride[axis], g.dilation[axis]
        step = stride if dilation == 1 else 1
        shares = []
        for first in range(0, taps, step):
            last = min(first + step, taps)
            cell, start = divmod(first * dilation, stride)
            shares.append(_Share(slice(first, last), cell, slice(start, start + last - first)))
        before = g.pads[axis][0]
        kept = slice(before, before + g.out[1 + axis])
        count = max(g.x[1 + axis] + shares[-1].cell, -(-kept.stop // stride))
        return cls(tuple(shares), count, stride, kept)

    @property
    def is_whole(self) -> bool:
        """True if the output has all elements."""
        return self.kept == slice(0, self.count * self.stride)

    @property
    def are_written_once(self) -> bool:
        """True if a position writes each element of its own cell once, and no other cell."""
        return len(self.shares) == 1 and self.shares[0].inside == slice(0, self.stride)


class _Spread:
    """The products of some rows by the filters, in a scratchpad, added to their cells.

    The target is an image of the output where that has all elements, else a scratchpad.
    """

    def __init__(
        self,
        call: KernelCall,
        geometry: Geometry,
        matrices: Floats,
        values: tuple[Value, Value],
        epilogue: Epilogue,
    ) -> None:
        self._geometry = g = geometry
        self._matrices = matrices  # (groups, c / groups, taps * k / groups)
        self._x, self._out = values
        self._epilogue = epilogue
        width = g.groups * matrices.shape[2]
        self._pieces = list(pieces(g.x[1:-1], PRODUCTS // width))
        self._products = scratch_floats(call, width * max(p.count for p in self._pieces))
        self._cells = cells = [_Cells.of(g, axis) for axis in range(len(g.size))]
        self._target: Value | None = None
        if not all(c.is_whole for c in cells):
            sizes = (c.count * c.stride for c in cells)
            self._target = scratch_floats(call, math.prod(sizes) * g.out[-1])
        self._adds = not all(
            c.are_written_once and c.count == size for c, size in zip(cells, g.x[1:-1], strict=True)
        )

    def bind(self, buffers: Buffers) -> Bound:
        g, cells = self._geometry, self._cells
        made, sizes = g.out[-1], [c.count * c.stride for c in self._cells]
        x = buffers.array(self._x).reshape(g.x[0], -1, g.groups, g.x[-1] // g.groups)
        out = buffers.array(self._out).reshape(g.out)
        after = self._epilogue.bind(buffers, made)
        products = floats(buffers, self._products)
        count = math.prod(g.out[1:-1])
        calls: list[Call] = []
        for n in range(g.x[0]):
            target = out[n]
            if self._target is not None:
                target = floats(buffers, self._target).reshape(*sizes, made)
            if self._adds:
                calls.append(fill(target, constant(0)))
            split = target.reshape(*(e for c in cells for e in (c.count, c.stride)), g.groups, -1)
            for piece in self._pieces:
                calls += self._piece(x[n, piece.positions], split, products, piece)
            if self._target is not None:
                calls.append(copy(out[n], target[tuple(c.kept for c in cells)]))
            calls += after(out[n].reshape(count, made), n * count)
        return call_sequence(calls)

    def _piece(self, source: Array, target: Array, products: Floats, piece: Piece) -> list[Call]:
        """Return the calls for some positions of one image.

        Args:
            source: (positions, groups, c / groups).
            target: (cells, stride, ... for each axis, groups, k / groups).
            products: Scratchpad.
            piece: The positions.
        """
        groups, _, width = self._matrices.shape
        found = products[: groups * piece.count * width].reshape(groups, piece.count, width)
        calls: list[Call] = []
        if groups == 1:
            calls.append(ufunc(np.matmul, source[:, 0], self._matrices[0], found[0]))
        else:
            calls.append(ufunc(np.matmul, source.swapaxes(0, 1), self._matrices, found))
        axes = len(self._cells)
        taps = found.reshape(groups, *piece.shape, *self._geometry.size, -1)
        # like the target: (positions, taps, ... for each axis, groups, k / groups)
        taps = taps.transpose(*(i for a in range(axes) for i in (1 + a, 1 + axes + a)), 0, -1)
        for chosen in np.ndindex(*(len(c.shares) for c in self._cells)):
            there: list[slice] = []
            here: list[slice] = []
            for cells, i, rows in zip(self._cells, chosen, piece.index, strict=True):
                share = cells.shares[i]
                there += [slice(rows.start + share.cell, rows.stop + share.cell), share.inside]
                here += [slice(None), share.taps]
            part, added = target[tuple(there)], taps[tuple(here)]
            calls.append(ufunc(np.add, part, added, part) if self._adds else copy(part, added))
        return calls
