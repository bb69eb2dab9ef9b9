"""oneDNN's layouts as layouts of a plan.

oneDNN orders the axes of images as (n, c, h, w) and those of filters as (o, i, h, w); our tensors
are (n, h, w, c) and (h, w, i, o). A descriptor has oneDNN's logical order, whatever the order in
memory. So each layout also has the descriptor of the tensor's dense, row-major form, which is the
layout None of a plan. With it, reorders need no knowledge of axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from dovetail.runtime.plan import KernelCall, Layout
from dovetail_onednn._api import DataType
from dovetail_onednn._library import library
from dovetail_onednn.descriptors import MemoryDesc

FLOAT_BYTES = 4
BYTES = {DataType.F32: FLOAT_BYTES, DataType.BF16: 2}
STRIDED_BYTES = BYTES | {DataType.U8: 1, DataType.S8: 1}
_LINE = 64  # bytes


class OneDnnLayout(msgspec.Struct, frozen=True):
    """A memory layout chosen by oneDNN.

    Attributes:
        desc: The layout.
        dense: The dense form of the same tensor, with axes in the same logical order.
    """

    space: ClassVar[None] = None
    desc: MemoryDesc
    dense: MemoryDesc

    @property
    def nbytes(self) -> int:
        """Size of a value in this layout, with padding."""
        return self.desc.nbytes

    @property
    def key(self) -> str:
        """See `Layout`; valid for this version of the library."""
        return f"{library().fingerprint}/{self.dense.key}/{self.desc.key}"


class Narrow(msgspec.Struct, frozen=True):
    """A dense, row-major tensor whose elements are rounded to a narrower type.

    Attributes:
        type: Type of the elements.
        count: Number of elements.
    """

    space: ClassVar[None] = None
    type: DataType
    count: int

    @property
    def nbytes(self) -> int:
        """Size of a value in this layout."""
        return self.count * BYTES[self.type]

    @property
    def key(self) -> str:
        """See `Layout`."""
        return f"onednn.narrow {self.type.name} {self.count}"


class Planes(msgspec.Struct, frozen=True):
    """The lower bytes of all elements of a 16-bit tensor, then the upper ones.

    The bytes are those of unsigned numbers, counted from the smallest integer of the type.

    Attributes:
        count: Number of elements.
    """

    space: ClassVar[None] = None
    count: int

    @property
    def apart(self) -> int:
        """Distance of the upper bytes from the lower ones: whole cache lines."""
        return -(-self.count // _LINE) * _LINE

    @property
    def nbytes(self) -> int:
        """Size of a value in this layout."""
        return 2 * self.apart

    @property
    def key(self) -> str:
        """See `Layout`."""
        return f"onednn.planes {self.count}"


class Strided(msgspec.Struct, frozen=True):
    """A dense tensor read with its axes in another order: a transpose without a copy.

    Attributes:
        shape: Shape after the transpose.
        strides: Distance of neighbors along each axis, in elements.
        type: Type of the elements.
    """

    space: ClassVar[None] = None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: DataType = DataType.F32

    @property
    def nbytes(self) -> int:
        """Size of a value in this layout."""
        return math.prod(self.shape) * STRIDED_BYTES[self.type]

    @property
    def key(self) -> str:
        """See `Layout`."""
        return f"onednn.strided {self.type.name} {self.shape} {self.strides}"

    @classmethod
    def transposed(
        cls, shape: Sequence[int], perm: Sequence[int], kind: DataType = DataType.F32
    ) -> Strided:
        """Return the layout of a dense tensor of this shape, transposed by `perm`."""
        along = row_major(shape)
        return cls(tuple(shape[p] for p in perm), tuple(along[p] for p in perm), kind)

    def along(self, dense: MemoryDesc) -> MemoryDesc:
        """Return its descriptor, with axes in the order of a descriptor of the dense form.

        That may have an axis in two, as filters of several groups have their columns.
        """
        wanted = list(zip(self.shape, row_major(self.shape), self.strides, strict=True))
        strides = []
        for size, step in zip(dense.dims, dense.strides, strict=True):
            whole = [w for w in wanted if w[:2] == (size, step)]
            parts = [w for w in wanted if size > 1 and w[1] <= step < w[0] * w[1]]
            # without any it is an axis of size 1 that the tensor lacks
            _, along, apart = (whole or parts or [(1, 1, 1)])[0]
            strides.append(step // along * apart)
            if whole:
                wanted.remove(whole[0])
        return MemoryDesc.strided(dense.dims, strides, self.type)


def layout_of(desc: MemoryDesc, dense: MemoryDesc) -> OneDnnLayout | Narrow | None:
    """Return the layout of a descriptor: None for the dense form.

    The descriptors of a tensor's dense form differ between primitives, but the layout is the same.
    """
    if desc == dense.of_type(desc.type):
        is_float32 = desc.type is DataType.F32
        return None if is_float32 else Narrow(desc.type, math.prod(dense.dims))
    return OneDnnLayout(desc, dense)


def type_of(layout: Layout | None) -> DataType:
    """Return the element type of a float32 tensor in a layout."""
    if isinstance(layout, OneDnnLayout):
        return layout.desc.type
    return layout.type if isinstance(layout, Narrow | Strided) else DataType.F32


def input_type(call: KernelCall, index: int = 0) -> DataType:
    """Return the element type of a float32 input in its present layout."""
    return type_of(call.layout(index)) if call.has(index) else DataType.F32


def narrow_layout(call: KernelCall, index: int = 0) -> Narrow | None:
    """Return the dense layout of an input's element type; None if that is float32."""
    kind = input_type(call, index)
    return None if kind is DataType.F32 else Narrow(kind, math.prod(call.spec(index).shape))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense tensor, in elements."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def permuted(shape: Sequence[int], axes: Sequence[int]) -> MemoryDesc:
    """Describe a dense, row-major tensor with its axes in oneDNN's order.

    Args:
        shape: Sizes in memory order.
        axes: For each logical axis, its index in `shape`.
    """
    strides = row_major(shape)
    return MemoryDesc.strided([shape[a] for a in axes], [strides[a] for a in axes])


def dense(shape: Sequence[int]) -> MemoryDesc:
    """Describe a dense tensor with axes in memory order; rank 0 becomes one axis of size 1."""
    return permuted(shape or (1,), range(len(shape) or 1))


def images(shape: Sequence[int]) -> MemoryDesc:
    """Describe dense (n, spatial..., c)."""
    rank = len(shape)
    return permuted(shape, (0, rank - 1, *range(1, rank - 1)))


def filters(shape: Sequence[int], groups: int) -> MemoryDesc:
    """Describe dense (spatial..., c / groups, k) filters; with groups, these come first."""
    *window, taken, units = shape
    axes = range(len(window))
    if groups == 1:
        return permuted(shape, (len(window) + 1, len(window), *axes))
    split = (*window, taken, groups, units // groups)
    return permuted(split, (len(window) + 1, len(window) + 2, len(window), *axes))


def transposed_filters(shape: Sequence[int], groups: int) -> MemoryDesc:
    """Describe dense (spatial..., c, k / groups) filters; with groups, these come first."""
    *window, taken, each = shape
    if groups == 1:
        return filters(shape, 1)
    rank = len(window)
    split = (*window, groups, taken // groups, each)
    return permuted(split, (rank, rank + 2, rank + 1, *range(rank)))


def aligned(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a shape of this rank, with leading axes of size 1."""
    return (*(1,) * (rank - len(shape)), *shape)


def vector(length: int) -> MemoryDesc:
    """Describe a dense vector, such as a bias."""
    return MemoryDesc.strided((length,), (1,))
