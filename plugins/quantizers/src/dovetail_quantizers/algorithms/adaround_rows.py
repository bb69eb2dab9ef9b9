"""Layers as matrix products: the rows of data for each output position."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Node, Shape
from dovetail.ops import OpRegistry, bind_node
from dovetail_opset.ops.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    DepthWiseConv1d,
    DepthWiseConv2d,
)
from dovetail_opset.ops.matrix import FullyConnected, MatMul
from dovetail_opset.ops.transposed import TransposeConv1d, TransposeConv2d, TransposeConv3d

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]

_TRANSPOSED = (TransposeConv1d, TransposeConv2d, TransposeConv3d)
_GROUPED = (Conv1d, Conv2d, Conv3d, *_TRANSPOSED)
_DEPTHWISE = (DepthWiseConv1d, DepthWiseConv2d)


class Rows(Protocol):
    """The form of a layer as `rows @ columns`, (groups, m, k) times (groups, k, n).

    Positions of the output (positions, groups * n) are numbered in order.
    """

    def columns(self, weight: Array) -> Array:
        """Return an array of the weight's shape as (groups, k, n)."""

    def weight(self, columns: Array) -> Array:
        """Return columns in the weight's shape: the inverse of `columns`."""

    def rows(self, data: Array, positions: Positions) -> Array:
        """Return the rows of data for some output positions, (groups, m, k)."""


def rows_of(node: Node, ops: OpRegistry) -> Rows | None:
    """Return a node as a product; None if it is not one, or has several matrices."""
    data, weight = node.inputs[0], node.inputs[1]
    assert data is not None
    assert weight is not None
    op = bind_node(ops.find(node.package, node.op_type), node)
    if isinstance(op, FullyConnected):
        return _Matrix(weight.shape, transposed_weight=True, transposed_data=False)
    if isinstance(op, MatMul):
        if math.prod(weight.shape[:-2]) != 1:
            return None
        return _Matrix(weight.shape, bool(op.transpose_in1), bool(op.transpose_in0))
    if not isinstance(op, _GROUPED + _DEPTHWISE):
        return None
    window = op.window(weight.shape)
    return _Sliding(
        weight.shape,
        node.outputs[0].shape[:-1],
        data.shape[-1] if isinstance(op, _DEPTHWISE) else int(op.group),
        window.size,
        window.stride,
        window.dilation,
        tuple(before for before, _ in window.pads),
        spreads=isinstance(op, _TRANSPOSED),
    )


def outputs_at(output: Array, groups: int, positions: Positions) -> Array:
    """Return an output (..., groups * n) at some positions, as (groups, m, n)."""
    flat = output.reshape(-1, output.shape[-1])[positions]
    return flat.reshape(len(positions), groups, -1).swapaxes(0, 1)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A product with one matrix, (..., k, n) or transposed."""

    shape: Shape
    transposed_weight: bool
    transposed_data: bool

    def columns(self, weight: Array) -> Array:
        matrix = weight.reshape(self.shape[-2:])
        return (matrix.T if self.transposed_weight else matrix)[None]

    def weight(self, columns: Array) -> Array:
        (matrix,) = columns
        return np.asarray((matrix.T if self.transposed_weight else matrix).reshape(self.shape))

    def rows(self, data: Array, positions: Positions) -> Array:
        turned = data.swapaxes(-1, -2) if self.transposed_data else data
        summed = self.shape[-1 if self.transposed_weight else -2]
        return np.asarray(turned.reshape(-1, summed)[positions][None])


@dataclass(frozen=True, slots=True)
class _Sliding:
    """A convolution; if it spreads, it is transposed: an input element has an output window."""

    shape: Shape
    positions: Shape
    groups: int
    size: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    spreads: bool

    def columns(self, weight: Array) -> Array:
        split = weight.reshape(math.prod(self.size), *self._inner)
        inner = split.transpose(1, 0, 2, 3) if self.spreads else split.transpose(2, 0, 1, 3)
        return inner.reshape(self.groups, -1, inner.shape[-1])

    def weight(self, columns: Array) -> Array:
        taps = math.prod(self.size)
        split = columns.reshape(self.groups, taps, -1, columns.shape[-1])
        inner = split.transpose(1, 0, 2, 3) if self.spreads else split.transpose(1, 2, 0, 3)
        return inner.reshape(self.shape)

    def rows(self, data: Array, positions: Positions) -> Array:
        channels = data.shape[-1]
        at = np.unravel_index(positions, self.positions)
        found = np.zeros((len(positions), math.prod(self.size), channels), np.float32)
        for number, tap in enumerate(np.ndindex(*self.size)):
            within, where = self._read(at[1:], tap, data.shape[1:-1])
            index = (at[0][within], *(axis[within] for axis in where))
            found[within, number] = data[index]
        split = found.reshape(len(positions), -1, self.groups, channels // self.groups)
        return split.transpose(2, 0, 1, 3).reshape(self.groups, len(positions), -1)

    @property
    def _inner(self) -> tuple[int, int, int]:
        taken, made = self.shape[-2:]
        if self.spreads:
            return self.groups, taken // self.groups, made
        return taken, self.groups, made // self.groups

    def _read(
        self, at: tuple[Positions, ...], tap: tuple[int, ...], extents: Shape
    ) -> tuple[NDArray[np.bool_], list[Positions]]:
        """Return which output positions a tap reads data for, and the index along each axis."""
        within = np.ones(len(at[0]), np.bool_)
        where = []
        axes = zip(at, tap, extents, self.stride, self.dilation, self.before, strict=True)
        for position, t, extent, stride, dilation, before in axes:
            if self.spreads:
                position, rest = np.divmod(position + before - t * dilation, stride)
                within &= rest == 0
            else:
                position = position * stride + t * dilation - before
            within &= (position >= 0) & (position < extent)
            where.append(position)
        return within, where
