"""Geometries of convolutions, their descriptions, and those that the library gets wrong."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from dovetail.ir import Shape
from dovetail_onednn._api import (
    CONVOLUTION_DIRECT,
    DECONVOLUTION_DIRECT,
    FORWARD_INFERENCE,
    DataType,
)
from dovetail_onednn.attributes import REAL, PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import images
from dovetail_onednn.precision import math_mode
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.threads import threads_for

_PLANE, _VOLUME = 2, 3  # axes
_NARROW_BLOCK, _BYTES_BLOCK = 32, 64  # channels, in bfloat16 and in bytes
# Products that take as long as reading one number: 230,000 products with as many filter elements
# took 0.035 ms in two threads and 0.085 in one.
_READING = 4
_RIGHT_PADDING = 3  # of rows of bytes with a zero point
_WRONG_COUNT = 5  # elements of an image
_LARGEST_PRODUCT = 255 * 128  # of an unsigned byte and a signed one
_EXACT = 1 << 24  # below which float32 holds every integer
_TAPS = (2, 3, 5, 7)  # numbers of parts of channels; data in copies have at least one of them
_STRICT = 0  # the library's number for float32 alone

# Descriptors of source and result; for None the library chooses.
Arrangement = tuple[MemoryDesc | None, MemoryDesc | None]


class Geometry(msgspec.Struct, frozen=True):
    """A convolution's operands in their dense forms, and its params.

    Attributes:
        source, weights, bias, target: Dense descriptors; no bias is None.
        stride, dilation, before, after: For each spatial axis; dilation 1 is a dense window.
        is_transposed: Whether elements of the source contribute to windows of the result.
    """

    source: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    target: MemoryDesc
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    is_transposed: bool = False

    @property
    def work(self) -> int:
        """Number of products, or of those that take as long as reading the filters, if larger."""
        of_each = math.prod(self.weights.dims[-len(self.stride) - 1 :])
        spread = self.source if self.is_transposed else self.target
        return max(of_each * math.prod(spread.dims), _READING * math.prod(self.weights.dims))

    def __str__(self) -> str:
        operands = f"source {_by(self.source)}, filters {_by(self.weights)}"
        bias = "" if self.bias is None else f", bias {_by(self.bias)}"
        return (
            f"{operands}{bias}, result {_by(self.target)}, stride {self.stride}, "
            f"dilation {self.dilation}, pads {self.before} and {self.after}"
        )


def convolution_desc(
    geometry: Geometry,
    post_ops: tuple[PostOp, ...] = (),
    arranged: Arrangement = (None, None),
    quantization: Quantization = REAL,
) -> PrimitiveDesc:
    """Describe a convolution.

    Args:
        geometry: Shapes and params.
        post_ops: Functions of the result.
        arranged: Descriptors of source and result; for None the library chooses.
        quantization: Arguments with scales and zero points; the filters are then signed bytes.

    Raises:
        BackendError: The library has no such convolution.
    """
    source, target = arranged
    kind = source.type if source else DataType.F32
    name = "deconvolution" if geometry.is_transposed else "convolution"
    algorithm = DECONVOLUTION_DIRECT if geometry.is_transposed else CONVOLUTION_DIRECT
    fused = "".join(f" + {op}" for op in post_ops)
    operands = (
        source or MemoryDesc.any(geometry.source.dims),
        MemoryDesc.any(geometry.weights.dims, kind if quantization is REAL else DataType.S8),
        geometry.bias,
        target or MemoryDesc.any(geometry.target.dims),
    )
    # the library counts the elements between two elements of a window
    dilation = tuple(d - 1 for d in geometry.dilation)
    sizes = (geometry.stride, dilation, geometry.before, geometry.after)
    description = Description(
        f"{name}_forward",
        (ENGINE, FORWARD_INFERENCE, algorithm, *operands, *sizes),
        lambda: f"a {kind.text} {name}{fused}: {geometry}",
        post_ops,
        _STRICT if is_wrong_inside(geometry) else math_mode(),
        quantization=quantization,
    )
    with threads_for(geometry.work):
        return PrimitiveDesc(description)


def is_depthwise(geometry: Geometry) -> bool:
    """Return whether each group has one channel on both sides."""
    has_groups = len(geometry.weights.dims) > len(geometry.source.dims)
    return has_groups and geometry.weights.dims[1:3] == (1, 1)


def is_column(geometry: Geometry) -> bool:
    """Return whether images are one element wide and several high."""
    ends = geometry.source, geometry.target
    sizes = [*(end.dims[-2:] for end in ends), geometry.weights.dims[-2:]]
    return (
        len(geometry.stride) == _PLANE
        and not geometry.is_transposed
        and all(width == 1 for _, width in sizes)
        and geometry.target.dims[-2] > 1
        and (geometry.before[-1], geometry.after[-1]) == (0, 0)
    )


def is_one_slice(geometry: Geometry) -> bool:
    """Return whether a convolution of volumes is one of images.

    With AMX, oneDNN 3.2 crashes at (1, 3, 3) windows over volumes one element deep, padded.
    """
    sizes = (desc.dims[-_VOLUME] for desc in (geometry.source, geometry.weights, geometry.target))
    return (
        len(geometry.stride) == _VOLUME
        and not geometry.is_transposed
        and all(size == 1 for size in sizes)
        and (geometry.before[0], geometry.after[0]) == (0, 0)
    )


def as_images(geometry: Geometry) -> Geometry:
    """Return a convolution of images for one slice, others as they are; see `is_one_slice`."""
    if not is_one_slice(geometry):
        return geometry
    return replace(
        geometry,
        source=_without_depth(geometry.source),
        weights=_without_depth(geometry.weights),
        target=_without_depth(geometry.target),
        stride=geometry.stride[1:],
        dilation=geometry.dilation[1:],
        before=geometry.before[1:],
        after=geometry.after[1:],
    )


def _without_depth(desc: MemoryDesc) -> MemoryDesc:
    (*dims, _, height, width), (*strides, _, down, along) = desc.dims, desc.strides
    return MemoryDesc.strided((*dims, height, width), (*strides, down, along), desc.type)


def as_rows(geometry: Geometry) -> Geometry:
    """Return a convolution with rows for columns, others as they are.

    Its tensors are the same bytes. The library computes several elements of a row at once: 512x1
    from 256 channels to 512 with filters of 5x1 took 7.9 ms, and 2.4 as one row. On processors with
    AMX, oneDNN 3.2 crashes at dilated columns of integers with padding.
    """
    if not is_column(geometry):
        return geometry
    return replace(
        geometry,
        source=with_turned_axes(geometry.source),
        weights=with_turned_axes(geometry.weights),
        target=with_turned_axes(geometry.target),
        stride=geometry.stride[::-1],
        dilation=geometry.dilation[::-1],
        before=geometry.before[::-1],
        after=geometry.after[::-1],
    )


def with_turned_axes(desc: MemoryDesc) -> MemoryDesc:
    """Return the descriptor of columns as that of rows."""
    *dims, height, width = desc.dims
    *strides, down, _ = desc.strides
    return MemoryDesc.strided((*dims, width, height), (*strides, height * down, down), desc.type)


def is_wrong_inside(geometry: Geometry) -> bool:
    """Return whether the library must not round factors to bfloat16 by itself, either."""
    is_slice = engine().library.has_amx and is_one_slice(geometry)
    return pads_wrongly(geometry) or steps_over_gaps(geometry) or is_slice


def is_wrong_when_narrow(geometry: Geometry) -> bool:
    """Return whether results of oneDNN 3.2 may be wrong in bfloat16 on processors with AMX."""
    return is_wrong_inside(geometry) or _spills_blocks(geometry, _NARROW_BLOCK)


def is_wrong_without_zero(geometry: Geometry) -> bool:
    """Return whether results of oneDNN 3.2 may be wrong in bytes without zero points, with AMX.

    There is other code for data with a zero point, even if that is 0.
    """
    return _spills_blocks(geometry, _BYTES_BLOCK)


def _spills_blocks(geometry: Geometry, block: int) -> bool:
    """Return whether rows of many filters fill blocks of channels while one element does not.

    Such as 2x2 with stride 2 over 48 channels. All wrong results that were found meet this
    condition.
    """
    window, axes = geometry.weights.dims[-len(geometry.stride) :], len(geometry.stride)
    is_grouped, inputs = len(geometry.weights.dims) > axes + 2, geometry.weights.dims[-axes - 1]
    return (
        engine().library.has_amx
        and not (geometry.is_transposed or is_grouped)
        and window[-1] > 1
        and (geometry.before[-1], geometry.dilation[-1]) == (0, 1)
        and inputs % block != 0
        and window[-1] * inputs % block == 0
        and geometry.stride[-1] * inputs % block == 0
    )


def pads_wrongly(geometry: Geometry) -> bool:
    """Return whether oneDNN 3.2 may pad wrongly on processors with AMX, or write out of bounds.

    In bfloat16 and bytes. All but one of 123 faults among 20,000 random geometries had windows with
    gaps, or padding above or below rows that have none at one of their ends: 3x1 with padding of 1
    over images 33 wide ended the process. See `steps_over_gaps` for the last. Convolutions with a
    group for each channel have other code, without faults. Of 10,000 others, bytes alone, 4 wrote
    out of bounds: they had padding, and strides larger than their windows.
    """
    pads = [*zip(geometry.before, geometry.after, strict=True)]
    *others, (left, right) = pads
    sizes = (desc.dims[-len(pads) : -1] for desc in (geometry.source, geometry.weights))
    is_one_row = all(size == 1 for dims in sizes for size in dims)
    has_gaps = _has_gaps(geometry) and not is_one_row
    has_bare_rows = any(map(any, others)) and not (left > 0 and right > 0)
    windows = geometry.weights.dims[-len(pads) :]
    leaves_out = any(step > size for step, size in zip(geometry.stride, windows, strict=True))
    return (
        engine().library.has_amx
        and not (geometry.is_transposed or is_depthwise(geometry))
        and any(map(any, pads))
        and (has_gaps or has_bare_rows or leaves_out)
    )


def pads_bytes_wrongly(geometry: Geometry, *, has_zero: bool) -> bool:
    """Return whether oneDNN 3.2 may pad bytes wrongly, or write out of bounds, on any processor.

    Besides `pads_wrongly`, there are two faults of its `brgconv`, both along the last axis:

    - Its code needs blocks of results that are as long as the padding. It checks their length,
      then finds that the sums for the zero point need registers, and makes the blocks shorter.
      All of 590 wrong results among 70,000 geometries had padding of 4 or more. By the lengths of
      the blocks, padding of 2 or 3 could be wrong in rare cases, but 4,000 such were right.
    - It ends the process, or reads bytes of others, with padding before a row and as many elements
      at its end that no window reads: in sum, it takes the row for one without padding.

    Args:
        geometry: The convolution.
        has_zero: Whether the library gets a zero point of the data.
    """
    if geometry.is_transposed or is_depthwise(geometry):
        return False
    before, after = geometry.before[-1], _read_after(geometry)
    is_long = has_zero and max(before, after) > _RIGHT_PADDING
    return is_long or before == -after > 0 or pads_wrongly(geometry)


def _read_after(geometry: Geometry) -> int:
    """Return how many elements after a row the last window reads; negative if it ends before."""
    window = (geometry.weights.dims[-1] - 1) * geometry.dilation[-1] + 1
    first = (geometry.target.dims[-1] - 1) * geometry.stride[-1] - geometry.before[-1]
    return first + window - geometry.source.dims[-1]


def is_wrong_in_bytes(geometry: Geometry) -> bool:
    """Return whether results of oneDNN 3.2 may be wrong in bytes, however they are padded."""
    is_wrong_count = _has_wrong_count(geometry) and max(geometry.stride) > 1
    return steps_over_gaps(geometry) or leaves_rows(geometry) or is_wrong_count


def as_elements(geometry: Geometry) -> Geometry:
    """Return a convolution of images of one element for pointwise ones that may be wrong.

    Its tensors are the same bytes. With AVX-512 without VNNI, oneDNN 3.2 computes images of 5
    elements wrongly, from 65 channels on in almost all cases.
    """
    if not _has_wrong_count(geometry) or max(geometry.stride) > 1:
        return geometry

    def spread(desc: MemoryDesc) -> MemoryDesc:
        count, channels, *sizes = desc.dims
        return images((count * math.prod(sizes), *(1 for _ in sizes), channels))

    return replace(geometry, source=spread(geometry.source), target=spread(geometry.target))


def may_round(channels: int) -> bool:
    """Return whether float32 does not hold some sum of products of bytes of so many channels."""
    return channels * _LARGEST_PRODUCT >= _EXACT


def in_taps(geometry: Geometry) -> Geometry:
    """Return a pointwise convolution as one over windows of elements with a part of the channels.

    Its tensors are the same bytes. Without VNNI, pointwise convolutions of oneDNN 3.2 round sums to
    float32 before they subtract what the zero point adds to them; other convolutions do not.
    """
    axes, (count, channels, *sizes) = len(geometry.stride), geometry.source.dims
    is_pointwise = math.prod(geometry.weights.dims[-axes:]) == 1
    is_grouped = len(geometry.weights.dims) > axes + 2
    if engine().library.has_vnni or geometry.is_transposed or is_grouped or not is_pointwise:
        return geometry
    taps = next((n for n in _TAPS if channels % n == 0), 1)
    if any((*geometry.before, *geometry.after)) or taps == 1:
        return geometry
    part, weights = channels // taps, geometry.weights
    (units, _, *window), (by_unit, by_channel, *steps) = weights.dims, weights.strides
    divided = MemoryDesc.strided(
        (units, part, *window[:-1], taps),
        (by_unit, by_channel, *steps[:-1], by_channel * part),
        weights.type,
    )
    return replace(
        geometry,
        source=images((count, *sizes[:-1], taps * sizes[-1], part)),
        weights=divided,
        stride=(*geometry.stride[:-1], taps * geometry.stride[-1]),
    )


def _has_wrong_count(geometry: Geometry) -> bool:
    axes, library = len(geometry.stride), engine().library
    return (
        library.has_avx512
        and not (library.has_vnni or geometry.is_transposed)
        and math.prod(geometry.weights.dims[-axes:]) == 1
        and not any((*geometry.before, *geometry.after))
        and math.prod(geometry.target.dims[-axes:]) == _WRONG_COUNT
    )


def steps_over_gaps(geometry: Geometry) -> bool:
    """Return whether windows have gaps and strides, with which oneDNN 3.2 may be wrong with AMX.

    In bfloat16 and bytes, without padding, too.
    """
    if geometry.is_transposed or is_depthwise(geometry):
        return False
    return engine().library.has_amx and max(geometry.stride) > 1 and _has_gaps(geometry)


def leaves_rows(geometry: Geometry) -> bool:
    """Return whether rows of the result, two or more in a row, have no products.

    They do if the stride of a transposed convolution is larger than its window. oneDNN 3.2 writes
    other numbers there than the bias, on every processor.
    """
    window = geometry.weights.dims[-len(geometry.stride) :]
    steps = zip(geometry.stride[:-1], window[:-1], strict=True)
    return geometry.is_transposed and any(stride - size > 1 for stride, size in steps)


def _has_gaps(geometry: Geometry) -> bool:
    sizes = geometry.weights.dims[-len(geometry.stride) :]
    return any(step > 1 and size > 1 for step, size in zip(geometry.dilation, sizes, strict=True))


def _by(desc: MemoryDesc) -> str:
    return "x".join(map(str, desc.dims))
