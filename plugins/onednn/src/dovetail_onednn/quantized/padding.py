"""Padding of images by primitives of their own, where the library's convolutions pad wrongly."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dovetail.ir import Shape
from dovetail_onednn._api import Algorithm, Arg, DataType
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.elementwise import eltwise_description
from dovetail_onednn.execution import Argument
from dovetail_onednn.geometry import Geometry, pads_bytes_wrongly
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads


class Padding(msgspec.Struct, frozen=True):
    """Padding of bytes that a step adds before its convolution.

    Attributes:
        inner: Descriptor of the bytes without padding.
        padded: Descriptor of those with padding.
        before: Padding before them along each axis.
    """

    inner: MemoryDesc
    padded: MemoryDesc
    before: Sequence[int]

    def add(self, stages: Stages, data: Argument, zero: int) -> Argument:
        """Add the stages that surround bytes with a zero point; return the larger image."""
        room = stages.room(self.padded)
        flat = MemoryDesc.strided((math.prod(self.padded.dims),), (1,), self.padded.type)
        everywhere = Argument(flat, room.value)
        count = 1 if self.padded.nbytes < LEAST_SHARED_ELEMENTS else 0
        fill = eltwise_description(Eltwise(Algorithm.LINEAR, 0.0, float(zero)), flat)
        with threads(count), PrimitiveDesc(fill) as desc:
            stages.add(desc, {Arg.SOURCE: everywhere, Arg.DESTINATION: everywhere})
        start = sum(map(operator.mul, self.before, self.padded.strides[2:]))
        within = MemoryDesc.strided(data.desc.dims, self.padded.strides, self.padded.type)
        stages.move(data, Argument(within, room.value, start))
        return room


def with_own_padding(
    geometry: Geometry, kind: DataType, *, has_zero: bool
) -> tuple[Geometry, Padding | None]:
    """Return a convolution that the library pads right, and the padding that is left to stages.

    Args:
        geometry: The convolution.
        kind: Type of the data.
        has_zero: Whether the library gets a zero point of the data.
    """
    if geometry.is_transposed:
        return _with_longer_source(geometry, kind)
    if not pads_bytes_wrongly(geometry, has_zero=has_zero):
        return geometry, None
    padding = _padding(geometry, kind, geometry.before, geometry.after)
    none = (0,) * len(geometry.stride)
    return replace(geometry, source=padding.padded, before=none, after=none), padding


def _with_longer_source(geometry: Geometry, kind: DataType) -> tuple[Geometry, Padding | None]:
    """Return a transposed convolution whose result ends within the products of its source.

    The result of an `output_padding` ends after them. oneDNN 3.2 writes other numbers there than
    the bias, in bytes, on every processor.
    """
    ends = zip(geometry.after, geometry.stride, strict=True)
    added = tuple(max(0, math.ceil(-after / step)) for after, step in ends)
    if not any(added):
        return geometry, None
    padding = _padding(geometry, kind, (0,) * len(added), added)
    longer = zip(geometry.after, geometry.stride, added, strict=True)
    after = tuple(pad + step * more for pad, step, more in longer)
    return replace(geometry, source=padding.padded, after=after), padding


def _padding(geometry: Geometry, kind: DataType, before: Shape, after: Shape) -> Padding:
    count, channels, *sizes = geometry.source.dims
    pads = zip(sizes, before, after, strict=True)
    padded = images((count, *(size + first + last for size, first, last in pads), channels))
    return Padding(geometry.source.of_type(kind), padded.of_type(kind), before)
