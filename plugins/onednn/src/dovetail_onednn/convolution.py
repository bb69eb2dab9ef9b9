"""Convolution along any number of axes, with its bias and fused nodes.

Filters with data are packed once per context, at finalize, and others in each run. Source and
result stay dense where the library has fast code for that. Where it only has generic code, the op
is left to its faster reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import (
    Arg,
    DataType,
)
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.geometry import (
    Arrangement,
    Geometry,
    as_rows,
    convolution_desc,
    is_column,
    is_wrong_when_narrow,
    with_turned_axes,
)
from dovetail_onednn.layouts import OneDnnLayout, Strided, aligned, filters, images, vector
from dovetail_onednn.pooling import reads_blocks
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.precision import factor_type
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import Arguments, is_slow

# Fewer channels fill no vector.
_FEW_CHANNELS = 4
_VECTOR = 16
_FEW_GROUPS = 4


def convolution(call: KernelCall) -> Step | None:
    """Run Conv1d to 3d and fused nodes as one primitive; see `Kernel.make`."""
    if not is_float32(call):
        return None
    source, groups = call.spec(0).shape, call.op.group
    if groups == source[-1]:
        return depthwise_convolution(call)
    # the library computes a whole vector of channels: with 6x6 filters from 256 channels to one it
    # took 380 us and NumPy 290, but to two 380 and 650
    if call.spec(1).shape[-1] == 1 and not call.has_data(1):
        return None
    geometry = geometry_of(call, groups, len(source) - 2)
    if groups > 1 and call.has_data(1) and _fills_no_vector(geometry):
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
    """Return the step of a convolution and fused nodes; None if the library has no fast code.

    Args:
        call: Its inputs are source, filters and perhaps bias, all float32.
        geometry: The convolution.
        rewritten: Converts the call's filters, which have data, to those of the geometry.
    """
    rank, axes = len(call.outputs[0].shape), len(geometry.stride)
    is_turned = is_column(geometry)
    geometry = as_rows(geometry)

    def describe(shape: Shape) -> MemoryDesc:
        found = _images(aligned(shape, rank), axes)
        return with_turned_axes(found) if is_turned else found

    def chain_in(kind: DataType) -> Chain:
        return chain_of(call, describe, kind).with_slopes(describe)

    # with other axes than the tensors, other steps could not read what the library prefers
    is_dense = is_turned or rank != axes + 2
    choices = arrangements(geometry, call.layout(0))[: 1 if is_dense else None]
    image = None
    kind = factor_type()
    if kind is not DataType.F32 and not is_wrong_when_narrow(geometry):
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
        read_filters(call, arguments, desc, geometry, rewritten)
        arguments.write(Arg.DESTINATION, 0, geometry.target)
        return arguments.step()


def read_filters(
    call: KernelCall,
    arguments: Arguments,
    desc: PrimitiveDesc,
    geometry: Geometry,
    rewritten: Callable[[Array], Array] = lambda weights: weights,
) -> None:
    """Declare that the filters are read, packed for a primitive; see `convolution_step`."""
    if not call.has_data(1):
        arguments.read(Arg.WEIGHTS, 1, geometry.weights)
        return
    packed = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights)

    def make(arrays: Arrays, _: object) -> Array:
        return pack(rewritten(given(arrays[0])), packed)

    weights = call.read_packed(1, packed.key, make, packed)
    arguments.constant(Arg.WEIGHTS, weights, packed.desc)


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


def _fills_no_vector(geometry: Geometry) -> bool:
    """Return whether a 1x1 convolution is faster as one group with zeros: few groups and channels.

    56x56 from 24 channels to 112 in 4 groups took 0.118 ms, and 0.058 as one group. An element that
    is not finite becomes NaN in the other groups.
    """
    groups, _, inputs, *window = geometry.weights.dims
    return math.prod(window) == 1 and inputs < _VECTOR and groups <= _FEW_GROUPS


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
