"""Layouts of oneDNN as layouts of a plan.

oneDNN names the axes of an image batch (n, c, h, w) and those of filters (o, i, h, w); our tensors
are (n, h, w, c) and (h, w, i, o). A descriptor has the logical order of oneDNN, whatever the order
in memory. So each layout also knows the descriptor of the tensor's dense, row-major form: what
`Layout` calls None. With it, reorders need to know nothing about axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.runtime.plan import KernelCall, Layout
from dovetail_onednn._api import DataType
from dovetail_onednn.descriptors import MemoryDesc

FLOAT_BYTES = 4
_BYTES = {DataType.F32: FLOAT_BYTES, DataType.BF16: 2}


@dataclass(frozen=True, slots=True)
class OneDnnLayout:
    """An arrangement of bytes that oneDNN chose.

    Attributes:
        desc: The arrangement.
        dense: The dense form of the same tensor, axes in the same logical order.
    """

    desc: MemoryDesc
    dense: MemoryDesc

    @property
    def nbytes(self) -> int:
        """Bytes of a value in this layout, padding included."""
        return self.desc.nbytes


@dataclass(frozen=True, slots=True)
class Narrow:
    """A dense, row-major tensor whose elements are rounded to a narrower type.

    Attributes:
        type: Of the elements.
        count: How many there are.
    """

    type: DataType
    count: int

    @property
    def nbytes(self) -> int:
        """Bytes of a value in this layout."""
        return self.count * _BYTES[self.type]


@dataclass(frozen=True, slots=True)
class Strided:
    """A dense tensor that is read in another order of axes: a transpose that moves nothing.

    Attributes:
        shape: Extents in the order of the tensor's axes.
        strides: How far apart its elements lie along each of them.
        type: Of the elements.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: DataType = DataType.F32

    @property
    def nbytes(self) -> int:
        """Bytes of a value in this layout."""
        return math.prod(self.shape) * _BYTES[self.type]

    @classmethod
    def transposed(
        cls, shape: Sequence[int], perm: Sequence[int], kind: DataType = DataType.F32
    ) -> Strided:
        """Return the transpose by `perm` of a dense tensor of this shape."""
        along = row_major(shape)
        return cls(tuple(shape[p] for p in perm), tuple(along[p] for p in perm), kind)

    def along(self, dense: MemoryDesc) -> MemoryDesc:
        """Describe it with axes in the logical order of a descriptor of its dense form."""
        wanted = list(zip(self.shape, row_major(self.shape), self.strides, strict=True))
        strides = []
        for extent, step in zip(dense.dims, dense.strides, strict=True):
            match = [w for w in wanted if w[:2] == (extent, step)] or [(extent, step, step)]
            if match[0] in wanted:  # else an axis of 1 that the tensor does not have
                wanted.remove(match[0])
            strides.append(match[0][2])
        return MemoryDesc.strided(dense.dims, strides, self.type)


def layout_of(desc: MemoryDesc, dense: MemoryDesc) -> OneDnnLayout | Narrow | None:
    """Return a descriptor's layout: None where it describes the dense form.

    Dense forms of one tensor differ from primitive to primitive in their axes; they are one layout.
    """
    if desc == dense.of_type(desc.type):
        is_float32 = desc.type is DataType.F32
        return None if is_float32 else Narrow(desc.type, math.prod(dense.dims))
    return OneDnnLayout(desc, dense)


def type_of(layout: Layout | None) -> DataType:
    """Return the type that a float32 tensor's elements have in a layout."""
    if isinstance(layout, OneDnnLayout):
        return layout.desc.type
    return layout.type if isinstance(layout, Narrow | Strided) else DataType.F32


def input_type(call: KernelCall, index: int = 0) -> DataType:
    """Return the type that the elements of a float32 input have where they lie."""
    return type_of(call.layout(index)) if call.has(index) else DataType.F32


def narrow_layout(call: KernelCall, index: int = 0) -> Narrow | None:
    """Return the dense layout of an input's type, if that is a narrower one than float32."""
    kind = input_type(call, index)
    return None if kind is DataType.F32 else Narrow(kind, math.prod(call.spec(index).shape))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense tensor."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def permuted(shape: Sequence[int], axes: Sequence[int]) -> MemoryDesc:
    """Describe a dense, row-major tensor whose axes oneDNN names in another order.

    Args:
        shape: Extents in memory order.
        axes: For each logical axis, which one of `shape` it is.
    """
    strides = row_major(shape)
    return MemoryDesc.strided([shape[a] for a in axes], [strides[a] for a in axes])


def dense(shape: Sequence[int]) -> MemoryDesc:
    """Describe a dense tensor whose axes keep their order; one of rank 0 has an axis of 1."""
    return permuted(shape or (1,), range(len(shape) or 1))


def images(shape: Sequence[int]) -> MemoryDesc:
    """Describe dense (n, spatial..., c)."""
    rank = len(shape)
    return permuted(shape, (0, rank - 1, *range(1, rank - 1)))


def filters(shape: Sequence[int], groups: int) -> MemoryDesc:
    """Describe dense (spatial..., c / groups, k) filters; with groups, these come first."""
    *window, taken, made = shape
    axes = range(len(window))
    if groups == 1:
        return permuted(shape, (len(window) + 1, len(window), *axes))
    split = (*window, taken, groups, made // groups)
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
    """Return a shape with leading extents of 1, so that it has this rank."""
    return (*(1,) * (rank - len(shape)), *shape)


def vector(length: int) -> MemoryDesc:
    """Describe a dense vector, such as a bias."""
    return MemoryDesc.strided((length,), (1,))
