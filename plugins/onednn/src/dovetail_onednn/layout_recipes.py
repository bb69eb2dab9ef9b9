"""Layouts of values as data, and the builders that make them again; see `recipes`."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import math
from collections.abc import Collection

from dovetail.runtime.plan import Data, PlanRecorder, RecipeError, Source
from dovetail_onednn._api import DataType
from dovetail_onednn.descriptors import MAX_BYTES, MemoryDesc
from dovetail_onednn.layouts import BYTES, STRIDED_BYTES, Narrow, OneDnnLayout, Planes, Strided
from dovetail_onednn.recipes import BUILDERS, element_type, record_memory

_LAYOUT, _NARROW, _STRIDED = "onednn.layout", "onednn.narrow", "onednn.strided"
_PLANES = "onednn.apart"  # as binaries have it; a step is "onednn.planes"


class LayoutData(Data, frozen=True):
    """A `OneDnnLayout`."""

    desc: int
    dense: int


class NarrowData(Data, frozen=True):
    """A `Narrow`."""

    type: int
    count: int


class PlanesData(Data, frozen=True):
    """A `Planes`."""

    count: int


class StridedData(Data, frozen=True):
    """A `Strided`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: int


def record_layout(layout: OneDnnLayout | Narrow | Planes | Strided, recorder: PlanRecorder) -> int:
    """Return the number of a layout."""

    def data() -> Data:
        if isinstance(layout, OneDnnLayout):
            desc, dense = (record_memory(d, recorder) for d in (layout.desc, layout.dense))
            return LayoutData(desc, dense)
        if isinstance(layout, Narrow):
            return NarrowData(int(layout.type), layout.count)
        if isinstance(layout, Planes):
            return PlanesData(layout.count)
        shape, strides = tuple(map(int, layout.shape)), tuple(map(int, layout.strides))
        return StridedData(shape, strides, int(layout.type))

    names = {OneDnnLayout: _LAYOUT, Narrow: _NARROW, Planes: _PLANES, Strided: _STRIDED}
    return recorder.item(names[type(layout)], layout, data)


@BUILDERS.builds(_LAYOUT, LayoutData)
def _layout(data: LayoutData, source: Source) -> OneDnnLayout:
    desc, dense = (source.item(number, MemoryDesc) for number in (data.desc, data.dense))
    if desc.dims != dense.dims:
        raise RecipeError(f"a layout of {desc.dims} has the dense form {dense.dims}")
    return OneDnnLayout(desc, dense)


@BUILDERS.builds(_NARROW, NarrowData)
def _narrow(data: NarrowData, source: Source) -> Narrow:
    return Narrow(_one_of(BYTES, data.type), _count(data.count))


@BUILDERS.builds(_PLANES, PlanesData)
def _planes(data: PlanesData, source: Source) -> Planes:
    return Planes(_count(data.count))


@BUILDERS.builds(_STRIDED, StridedData)
def _strided(data: StridedData, source: Source) -> Strided:
    sizes = (*data.shape, *data.strides)
    is_possible = len(data.shape) == len(data.strides) and all(0 < n < MAX_BYTES for n in sizes)
    if not is_possible or math.prod(data.shape) >= MAX_BYTES:
        raise RecipeError(f"impossible strides {data.strides} of the shape {data.shape}")
    return Strided(data.shape, data.strides, _one_of(STRIDED_BYTES, data.type))


def _count(number: int) -> int:
    if not 0 <= number < MAX_BYTES:
        raise RecipeError(f"impossible number of elements {number}")
    return number


def _one_of(types: Collection[DataType], number: int) -> DataType:
    kind = element_type(number)
    if kind not in types:
        raise RecipeError(f"unexpected element type {kind.name}")
    return kind
