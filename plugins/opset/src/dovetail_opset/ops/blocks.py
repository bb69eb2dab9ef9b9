"""Exchange of blocks between space, batch and channels.

Each op is a strided view of its input, `arranged`; its elements in order are those of the result.
"""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
import math

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import BatchAxis, Domain, In, Op, choice, last_axis, tensor, uint32
from dovetail_opset._constants import element_of
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import ints, moved, need_axis, need_rank


class BlockMode(enum.IntEnum):
    """Order of the depth: DCR, position in the block before channels; CRD, after them."""

    DCR = 0
    CRD = 1


class _Blocks(Op):
    """Base of the ops on blocks of (n, h, w, c)."""

    inputs = (In("in[0]"),)
    domain = Domain.MOVE

    block_size = tensor((2,))

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        if 0 in self.block:
            raise OpError(f"block_size {self.block} must be 1 or more")
        return moved(x, self.target(x.shape), out)

    @property
    def block(self) -> tuple[int, int]:
        """Height and width of a block."""
        height, width = ints(self.block_size)
        return height, width

    def target(self, x: Shape) -> Shape:
        """Return the result's shape."""
        raise NotImplementedError

    def need_divisible(self, lengths: Shape, by: Shape, what: str) -> Shape:
        """Return sizes divided by those of a block.

        Raises:
            OpError: They are not divisible.
        """
        if any(n % k for n, k in zip(lengths, by, strict=True)):
            raise OpError(f"{what} {lengths} does not divide into blocks of {self.block}")
        return tuple(n // k for n, k in zip(lengths, by, strict=True))


@PACKAGE.op("DepthToSpace")
class DepthToSpace(_Blocks):
    """Blocks of space from the depth.

    x: (n, h, w, c * block). Returns (n, h * block_size[0], w * block_size[1], c). The depth is read
    as (block_size[0], block_size[1], c) under DCR, as (c, block_size[0], block_size[1]) under CRD.
    """

    batch_axis = BatchAxis.FIRST

    keeps_all = True

    mode = choice(BlockMode, BlockMode.DCR)

    def target(self, x: Shape) -> Shape:
        n, h, w, depth = x
        rows, columns = self.block
        (c,) = self.need_divisible((depth,), (rows * columns,), "the depth")
        return n, h * rows, w * columns, c

    def arranged(self, x: Array) -> Array:
        """Return x as a view (n, h, block_size[0], w, block_size[1], c)."""
        n, h, w, depth = x.shape
        rows, columns = self.block
        c = depth // (rows * columns)
        if self.mode is BlockMode.DCR:
            return x.reshape(n, h, w, rows, columns, c).transpose(0, 1, 3, 2, 4, 5)
        return x.reshape(n, h, w, c, rows, columns).transpose(0, 1, 4, 2, 5, 3)

    def reference(self, x: Array, out: Spec) -> Array:
        return self.arranged(x).reshape(out.shape)


@PACKAGE.op("SpaceToDepth")
class SpaceToDepth(_Blocks):
    """Depth from blocks of space, the inverse of DepthToSpace.

    x: (n, h * block_size[0], w * block_size[1], c). Returns (n, h, w, c * block). The depth is
    written as (block_size[0], block_size[1], c) under DCR, as (c, block_size[0], block_size[1])
    under CRD.
    """

    batch_axis = BatchAxis.FIRST

    keeps_all = True

    mode = choice(BlockMode, BlockMode.DCR)

    def target(self, x: Shape) -> Shape:
        n, height, width, c = x
        h, w = self.need_divisible((height, width), self.block, "the space")
        return n, h, w, c * math.prod(self.block)

    def arranged(self, x: Array) -> Array:
        """Return x as a view (n, h, w, ...), whose last three dimensions are the depth."""
        n, height, width, c = x.shape
        rows, columns = self.block
        parts = x.reshape(n, height // rows, rows, width // columns, columns, c)
        last = (2, 4, 5) if self.mode is BlockMode.DCR else (5, 2, 4)
        return parts.transpose(0, 1, 3, *last)

    def reference(self, x: Array, out: Spec) -> Array:
        return self.arranged(x).reshape(out.shape)


@PACKAGE.op("BatchToSpace")
class BatchToSpace(_Blocks):
    """Blocks of space from the batch, then cropped.

    x: (block * n, h, w, c), the batch read as (block_size[0], block_size[1], n). crops: (2, 2),
    rows (before, after) of height and width. Returns (n, h * block_size[0] - crops[0].sum(), w *
    block_size[1] - crops[1].sum(), c).
    """

    crops = tensor((2, 2), [[0, 0], [0, 0]])

    @property
    def keeps_all(self) -> bool:
        return not self.crops.any()

    def target(self, x: Shape) -> Shape:
        batch, h, w, c = x
        rows, columns = self.block
        (n,) = self.need_divisible((batch,), (rows * columns,), "the batch")
        whole = h * rows, w * columns
        left = tuple(n - sum(ints(pair)) for n, pair in zip(whole, self.crops, strict=True))
        if min(left) < 0:
            raise OpError(f"crops {self.crops.tolist()} are larger than the space {whole}")
        return n, *left, c

    def reference(self, x: Array) -> Array:
        batch, h, w, c = x.shape
        rows, columns = self.block
        n = batch // (rows * columns)
        parts = x.reshape(rows, columns, n, h, w, c).transpose(2, 3, 0, 4, 1, 5)
        whole = parts.reshape(n, h * rows, w * columns, c)
        (top, bottom), (left, right) = map(ints, self.crops)
        return whole[:, top : h * rows - bottom, left : w * columns - right]


@PACKAGE.op("SpaceToBatch")
class SpaceToBatch(_Blocks):
    """Batch from blocks of space, which is first padded with the real value 0.

    x: (n, h, w, c). pad_amount: (2, 2), rows (before, after) of height and width. Returns (block *
    n, padded h / block_size[0], padded w / block_size[1], c), the batch written as (block_size[0],
    block_size[1], n).
    """

    keeps_all = True

    pad_amount = tensor((2, 2), [[0, 0], [0, 0]])

    def target(self, x: Shape) -> Shape:
        n, h, w, c = self.padded(x)
        h, w = self.need_divisible((h, w), self.block, "the padded space")
        return n * math.prod(self.block), h, w, c

    def padded(self, x: Shape) -> Shape:
        """Return the shape after padding."""
        n, h, w, c = x
        (top, bottom), (left, right) = map(ints, self.pad_amount)
        return n, top + h + bottom, left + w + right, c

    def reference(self, x: Array, out: Spec) -> Array:
        n, height, width, c = self.padded(x.shape)
        if (height, width) != x.shape[1:3]:
            (top, _), (left, _) = map(ints, self.pad_amount)
            wide = np.full((n, height, width, c), element_of(0.0, x, out))
            wide[:, top : top + x.shape[1], left : left + x.shape[2]] = x
            x = wide
        rows, columns = self.block
        parts = x.reshape(n, height // rows, rows, width // columns, columns, c)
        return parts.transpose(2, 4, 0, 1, 3, 5).reshape(out.shape)


@PACKAGE.op("ChannelShuffle")
class ChannelShuffle(Op):
    """Channels interleaved between `num_groups` groups: (groups, c / groups) transposed.

    x: any shape whose size at `axis` is divisible by num_groups. Returns the same shape.
    """

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.ANY
    keeps_all = True

    num_groups = uint32()
    axis = uint32(last_axis)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        length = x.shape[need_axis(self.axis, len(x.shape))]
        if self.num_groups == 0 or length % self.num_groups:
            raise OpError(
                f"num_groups {self.num_groups} does not divide the {length} elements of axis "
                f"{self.axis}"
            )
        return moved(x, x.shape, out)

    def arranged(self, x: Array) -> Array:
        """Return x as a view (..., c / groups, groups, ...)."""
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        each = x.shape[self.axis] // self.num_groups
        groups = x.reshape(*before, self.num_groups, each, *after)
        return groups.swapaxes(self.axis, self.axis + 1)

    def reference(self, x: Array) -> Array:
        return self.arranged(x).reshape(x.shape)
