"""Convolution along any number of axes, with its bias and fused nodes.

Filters are packed once per context, at finalize. Source and result stay dense where the library
has fast code for that. Where it only has generic code, the op is left to its faster reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import (
    CONVOLUTION_DIRECT,
    DECONVOLUTION_DIRECT,
    FORWARD_INFERENCE,
    Arg,
    DataType,
)
from dovetail_onednn.attributes import REAL, PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, Strided, aligned, filters, images, vector
from dovetail_onednn.pooling import reads_blocks
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.precision import factor_type, math_mode
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import Arguments, is_slow
from dovetail_onednn.threads import threads_for

# Fewer channels fill no vector.
_FEW_CHANNELS = 4
_VECTOR = 16
_FEW_GROUPS = 4
_PLANE = 2  # axes
_STRICT = 0  # the library's number for float32 alone
_NARROW_BLOCK = 32  # channels, in bfloat16
# Products that take as long as reading one number: 230,000 products with as many filter elements
# took 0.035 ms in two threads and 0.085 in one.
_READING = 4

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


def convolution(call: KernelCall) -> Step | None:
    """Run Conv1d to 3d and fused nodes as one primitive; see `Kernel.make`."""
    if not is_float32(call):
        return None
    source, groups = call.spec(0).shape, call.op.group
    if groups == source[-1]:
        return depthwise_convolution(call)
    geometry = geometry_of(call, groups, len(source) - 2)
    if groups > 1 and _fills_no_vector(geometry):
        spread = replace(geometry, weights=_spread_filters(geometry.weights))
        return convolution_step(call, spread, lambda weights: _spread(weights, groups))
    return convolution_step(call, geometry)


def depthwise_convolution(call: KernelCall) -> Step | None:
    """Run DepthWiseConv1d and 2d: convolutions with as many groups as channels.

    One axis runs as two, the first of size 1: the library's code for depthwise convolutions along
    one axis took 20 times as long.
    """
    if not is_float32(call):
        return None
    source = call.spec(0).shape
    return convolution_step(call, geometry_of(call, source[-1], max(2, len(source) - 2)))


def convolution_step(
    call: KernelCall,
    geometry: Geometry,
    rewritten: Callable[[Array], Array] = lambda weights: weights,
) -> Step | None:
    """Return the step of a convolution and fused nodes; None if the filters have no data.

    Args:
        call: Its inputs are source, filters and perhaps bias, all float32.
        geometry: The convolution.
        rewritten: Converts the call's filters to those of the geometry.
    """
    if not call.has_data(1):
        return None
    rank, axes = len(call.outputs[0].shape), len(geometry.stride)
    is_column = _is_column(geometry)
    geometry = as_rows(geometry)

    def describe(shape: Shape) -> MemoryDesc:
        found = _images(aligned(shape, rank), axes)
        return _with_turned_axes(found) if is_column else found

    def chain_in(kind: DataType) -> Chain:
        return chain_of(call, describe, kind).with_slopes(describe)

    # with other axes than the tensors, other steps could not read what the library prefers
    is_dense = is_column or rank != axes + 2
    choices = arrangements(geometry, call.layout(0))[: 1 if is_dense else None]
    image = None
    kind = factor_type()
    if kind is not DataType.F32 and not _is_wrong_when_narrow(geometry):
        choices.insert(0, (geometry.source.of_type(kind), geometry.target.of_type(kind)))
    elif (image := _as_channels_first(call, geometry)) is not None:
        choices.insert(0, (image, None))
    found = _choose(geometry, chain_in, choices)
    if found is None:
        return None
    desc, chain = found
    with desc:
        arguments = Arguments(call, desc)
        if desc.desc(Arg.SOURCE) == image:
            arguments.read_as_is(Arg.SOURCE, 0)
        else:
            arguments.read(Arg.SOURCE, 0, geometry.source)
        if geometry.bias is not None:
            arguments.read(Arg.BIAS, 2, geometry.bias)
        arguments.read_chain(chain)
        packed = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights)

        def make(arrays: Arrays, _: object) -> Array:
            return pack(rewritten(given(arrays[0])), packed)

        weights = call.read_packed(1, packed.key, make, packed)
        arguments.constant(Arg.WEIGHTS, weights, packed.desc)
        arguments.write(Arg.DESTINATION, 0, geometry.target)
        return arguments.step()


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
        _STRICT if pads_wrongly(geometry) or steps_over_gaps(geometry) else math_mode(),
        quantization=quantization,
    )
    with threads_for(geometry.work):
        return PrimitiveDesc(description)


def geometry_of(call: KernelCall, groups: int, axes: int) -> Geometry:
    """Return a call's geometry.

    Args:
        call: A call of Conv1d to 3d or of a depthwise convolution.
        groups: Number of groups of channels.
        axes: Number of spatial axes; those that the op lacks come first and have size 1.
    """
    op, weights = call.op, call.spec(1).shape
    pads, new = ints(op.pad_amount), axes + 2 - len(weights)
    none, ones = (0,) * new, (1,) * new
    return Geometry(
        _images(call.spec(0).shape, axes),
        filters((*ones, *weights), groups),
        vector(weights[-1]) if call.has(2) else None,
        _images(call.outputs[0].shape, axes),
        ones + ints(op.stride),
        ones + ints(op.dilation),
        none + pads[::2],
        none + pads[1::2],
    )


def _is_column(geometry: Geometry) -> bool:
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


def as_rows(geometry: Geometry) -> Geometry:
    """Return a convolution with rows for columns, others as they are.

    Its tensors are the same bytes. The library computes several elements of a row at once: 512x1
    from 256 channels to 512 with filters of 5x1 took 7.9 ms, and 2.4 as one row. On processors with
    AMX, oneDNN 3.2 crashes at dilated columns of integers with padding.
    """
    if not _is_column(geometry):
        return geometry
    return replace(
        geometry,
        source=_with_turned_axes(geometry.source),
        weights=_with_turned_axes(geometry.weights),
        target=_with_turned_axes(geometry.target),
        stride=geometry.stride[::-1],
        dilation=geometry.dilation[::-1],
        before=geometry.before[::-1],
        after=geometry.after[::-1],
    )


def _with_turned_axes(desc: MemoryDesc) -> MemoryDesc:
    *dims, height, width = desc.dims
    *strides, down, _ = desc.strides
    return MemoryDesc.strided((*dims, width, height), (*strides, height * down, down), desc.type)


def _fills_no_vector(geometry: Geometry) -> bool:
    """Return whether a 1x1 convolution is faster as one group with zeros: few groups and channels.

    56x56 from 24 channels to 112 in 4 groups took 0.118 ms, and 0.058 as one group. An element that
    is not finite becomes NaN in the other groups.
    """
    groups, _, inputs, *window = geometry.weights.dims
    return math.prod(window) == 1 and inputs < _VECTOR and groups <= _FEW_GROUPS


def _is_wrong_when_narrow(geometry: Geometry) -> bool:
    """Return whether results of oneDNN 3.2 may be wrong in bfloat16 on processors with AMX.

    They are for many filters whose rows fill blocks of channels while one element does not, such as
    2x2 with stride 2 over 48 channels. All faults that were found meet this condition.
    """
    window, axes = geometry.weights.dims[-len(geometry.stride) :], len(geometry.stride)
    is_grouped, inputs = len(geometry.weights.dims) > axes + 2, geometry.weights.dims[-axes - 1]
    return (
        pads_wrongly(geometry)
        or steps_over_gaps(geometry)
        or (
            engine().library.has_amx
            and not (geometry.is_transposed or is_grouped)
            and window[-1] > 1
            and (geometry.before[-1], geometry.dilation[-1]) == (0, 1)
            and inputs % _NARROW_BLOCK != 0
            and window[-1] * inputs % _NARROW_BLOCK == 0
            and geometry.stride[-1] * inputs % _NARROW_BLOCK == 0
        )
    )


def pads_wrongly(geometry: Geometry) -> bool:
    """Return whether oneDNN 3.2 may pad wrongly on processors with AMX, or write out of bounds.

    In bfloat16 and bytes. All but one of 123 faults among 20,000 random geometries had windows with
    gaps, or padding above or below rows that have none at one of their ends: 3x1 with padding of 1
    over images 33 wide ended the process. See `steps_over_gaps` for the last. Convolutions with a
    group for each channel have other code, without faults.
    """
    pads = [*zip(geometry.before, geometry.after, strict=True)]
    *others, (left, right) = pads
    sizes = (desc.dims[-len(pads) : -1] for desc in (geometry.source, geometry.weights))
    is_one_row = all(size == 1 for dims in sizes for size in dims)
    has_gaps = _has_gaps(geometry) and not is_one_row
    has_bare_rows = any(map(any, others)) and not (left > 0 and right > 0)
    return (
        engine().library.has_amx
        and not (geometry.is_transposed or is_depthwise(geometry))
        and any(map(any, pads))
        and (has_gaps or has_bare_rows)
    )


def steps_over_gaps(geometry: Geometry) -> bool:
    """Return whether windows have gaps and strides, with which oneDNN 3.2 may be wrong with AMX.

    In bfloat16 and bytes, without padding, too.
    """
    if geometry.is_transposed or is_depthwise(geometry):
        return False
    return engine().library.has_amx and max(geometry.stride) > 1 and _has_gaps(geometry)


def is_depthwise(geometry: Geometry) -> bool:
    """Return whether each group has one channel on both sides."""
    has_groups = len(geometry.weights.dims) > len(geometry.source.dims)
    return has_groups and geometry.weights.dims[1:3] == (1, 1)


def _has_gaps(geometry: Geometry) -> bool:
    sizes = geometry.weights.dims[-len(geometry.stride) :]
    return any(step > 1 and size > 1 for step, size in zip(geometry.dilation, sizes, strict=True))


def leaves_rows(geometry: Geometry) -> bool:
    """Return whether rows of the result, two or more in a row, have no products.

    They do if the stride of a transposed convolution is larger than its window. oneDNN 3.2 writes
    other numbers there than the bias, on every processor.
    """
    window = geometry.weights.dims[-len(geometry.stride) :]
    steps = zip(geometry.stride[:-1], window[:-1], strict=True)
    return geometry.is_transposed and any(stride - size > 1 for stride, size in steps)


def _spread_filters(weights: MemoryDesc) -> MemoryDesc:
    """Describe grouped filters as those of one group."""
    groups, outputs, inputs, *window = weights.dims
    return filters((*window, groups * inputs, groups * outputs), 1)


def _spread(weights: Array, groups: int) -> Array:
    """Return filters (spatial..., c / groups, k) as (spatial..., c, k), 0 for other groups."""
    *window, inputs, outputs = weights.shape
    each = outputs // groups
    found = np.zeros((*window, groups, inputs, groups, each), weights.dtype)
    for group in range(groups):
        found[..., group, :, group, :] = weights[..., group * each : (group + 1) * each]
    return found.reshape(*window, groups * inputs, outputs)


def _images(shape: Shape, axes: int) -> MemoryDesc:
    """Describe dense (n, spatial..., c) with this number of spatial axes."""
    return images((shape[0], *(1,) * (axes + 2 - len(shape)), *shape[1:]))


def _as_channels_first(call: KernelCall, geometry: Geometry) -> MemoryDesc | None:
    """Describe an image of few channels in its channels-first layout, if the result is pooled.

    The library has a separate kernel for so few channels, which reads no other layout and writes a
    blocked result. It takes half the time, but only if the next step reads that result.
    """
    layout, channels = call.layout(0), geometry.source.dims[1]
    if not isinstance(layout, Strided) or channels >= _FEW_CHANNELS:
        return None
    readers, last = call.readers(), (call.head, *(node.view for node in call.fused))[-1]
    fits = len(readers) == 1 and reads_blocks(readers[0], last.node)
    return layout.along(geometry.source) if fits else None


def arrangements(geometry: Geometry, layout: object) -> list[Arrangement]:
    """Return the layouts of source and result to try, in this order.

    Dense comes first: the library itself chooses it for most convolutions on AVX2 and AVX-512, is
    fastest with it for those in small groups, and every other op reads it without a reorder. Then
    the present layout of the source, then the choice of the library.
    """
    own = layout.desc if isinstance(layout, OneDnnLayout) else None
    return [(geometry.source, geometry.target), (own, None), (None, None)]


def _choose(
    geometry: Geometry, chain_in: Callable[[DataType], Chain], choices: Sequence[Arrangement]
) -> tuple[PrimitiveDesc, Chain] | None:
    """Describe the convolution in the first layouts for which the library has fast code."""
    for each in dict.fromkeys(choices):
        chain = chain_in(each[0].type if each[0] else DataType.F32)
        desc = convolution_desc(geometry, chain.ops, each)
        if not is_slow(desc):
            return desc, chain
        desc.close()
    return None


def ints(values: object) -> Shape:
    """Return the elements of a param; for ops with one axis it is a scalar or has one axis less."""
    return tuple(int(v) for v in np.asarray(values).reshape(-1))


def _by(desc: MemoryDesc) -> str:
    return "x".join(map(str, desc.dims))
