"""Convolution along any number of axes, with its bias and what follows it.

Filters are packed once per context, at finalize; source and result stay dense wherever the library
has fast code for that. Where all it has is its generic code, the op is left to its reference, which
is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import (
    CONVOLUTION_DIRECT,
    DECONVOLUTION_DIRECT,
    FORWARD_INFERENCE,
    Arg,
    DataType,
)
from dovetail_onednn.descriptors import MemoryDesc, array
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, Strided, aligned, filters, images, vector
from dovetail_onednn.pooling import takes_blocks
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.precision import factor_type
from dovetail_onednn.primitives import Attributes, PostOp, PrimitiveDesc
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import Arguments, is_float32, is_slow
from dovetail_onednn.threads import threads_for

# Fewer fill no vector.
_FEW_CHANNELS = 4
_VECTOR = 16
_FEW_GROUPS = 4
_NARROW_BLOCK = 32  # channels, in bfloat16
# Products that take as long as reading one number: 230,000 of as many filters took 0.035 ms in two
# threads and 0.085 in one.
_READING = 4

# Source and result; None leaves the choice to the library.
Arrangement = tuple[MemoryDesc | None, MemoryDesc | None]


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's operands in their dense forms, and its params.

    Attributes:
        source, weights, bias, target: Dense descriptors; no bias is None.
        stride, dilation, before, after: For each spatial axis; dilation 1 is a dense window.
        is_transposed: Whether elements of the source spread over windows of the result.
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
        """How many numbers are multiplied, or what takes as long as reading the filters."""
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
    """Run Conv1d to 3d and the tail as one primitive; see `Kernel.make`."""
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
    """Run DepthWiseConv1d and 2d: convolutions of as many groups as channels.

    One axis runs as two, of which the first has one element: for a depthwise convolution along one
    axis there is code that measured 20 times slower.
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
    """Return the step of a convolution and the call's tail; None where filters are not known yet.

    Args:
        call: Its inputs are source, filters and maybe bias, all float32.
        geometry: The convolution.
        rewritten: Gives the filters that the geometry has, of the call's.
    """
    weights = call.static(1)
    if weights is None:
        return None
    rank, axes = len(call.outputs[0].shape), len(geometry.stride)

    def chain_in(kind: DataType) -> Chain:
        return chain_of(call, lambda s: _images(aligned(s, rank), axes), kind)

    # where axes were added, other steps could not read what the library likes best
    choices = arrangements(geometry, call.layout(0))[: None if rank == axes + 2 else 1]
    image = None
    if (kind := factor_type()) is not DataType.F32 and not _is_wrong_when_narrow(geometry):
        choices.insert(0, (geometry.source.of_type(kind), geometry.target.of_type(kind)))
    elif (image := _as_channels_first(call, geometry)) is not None:
        choices.insert(0, (image, None))
    found = _choose(geometry, chain_in, choices)
    if found is None:
        return None
    desc, chain = found
    with desc:
        places = Arguments(call, desc)
        if desc.desc(Arg.SOURCE) == image:
            places.read_as_it_lies(Arg.SOURCE, 0)
        else:
            places.read(Arg.SOURCE, 0, geometry.source)
        if geometry.bias is not None:
            places.read(Arg.BIAS, 2, geometry.bias)
        places.read_chain(chain)
        packed = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights)
        form = f"{engine().library.fingerprint}/{geometry.weights.key}/{packed.desc.key}"
        made = call.packed(1, form, lambda: pack(rewritten(weights), packed))
        places.constant(Arg.WEIGHTS, call.constant(made, packed), packed.desc)
        places.write(Arg.DESTINATION, 0, geometry.target)
        return places.step()


def convolution_desc(
    geometry: Geometry,
    post_ops: tuple[PostOp, ...] = (),
    arranged: Arrangement = (None, None),
) -> PrimitiveDesc:
    """Describe a convolution.

    Args:
        geometry: Extents and params.
        post_ops: What is done to the result.
        arranged: Source and result; None leaves the choice to the library.

    Raises:
        BackendError: There is no such convolution.
    """
    source, target = arranged
    kind = source.type if source else DataType.F32
    name = "deconvolution" if geometry.is_transposed else "convolution"
    algorithm = DECONVOLUTION_DIRECT if geometry.is_transposed else CONVOLUTION_DIRECT
    tail = "".join(f" + {op}" for op in post_ops)
    with Attributes(post_ops, multiplies=True) as attributes, threads_for(geometry.work):
        return PrimitiveDesc(
            f"{name}_forward",
            engine(),
            FORWARD_INFERENCE,
            algorithm,
            source or MemoryDesc.any(geometry.source.dims),
            MemoryDesc.any(geometry.weights.dims, kind),
            geometry.bias,
            target or MemoryDesc.any(geometry.target.dims),
            array(geometry.stride),
            # the library counts the elements skipped between two of a window
            array([d - 1 for d in geometry.dilation]),
            array(geometry.before),
            array(geometry.after),
            attributes,
            description=f"a {kind.text} {name}{tail}: {geometry}",
        )


def geometry_of(call: KernelCall, groups: int, axes: int) -> Geometry:
    """Return a call's geometry.

    Args:
        call: Of Conv1d to 3d or a depthwise one.
        groups: Of channels.
        axes: Spatial ones; those that the op lacks come first and have one element.
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
    """Return whether filters of one element take so few channels of few groups that zeros cost less.

    From 24 channels to 112 in 4 groups, 56x56 took 0.118 ms, and 0.058 as one group.
    """
    groups, _, taken, *window = geometry.weights.dims
    return math.prod(window) == 1 and taken < _VECTOR and groups <= _FEW_GROUPS


def _is_wrong_when_narrow(geometry: Geometry) -> bool:
    """Return whether oneDNN 3.2 may give wrong results in bfloat16 on processors with AMX.

    It does for many filters, 2x2 in steps of 2 over 48 channels among them, where rows of a filter
    fill blocks of channels and one element of them does not. All that were found are among these.
    """
    window, axes = geometry.weights.dims[-len(geometry.stride) :], len(geometry.stride)
    is_grouped, taken = len(geometry.weights.dims) > axes + 2, geometry.weights.dims[-axes - 1]
    return (
        engine().library.has_amx
        and not (geometry.is_transposed or is_grouped)
        and window[-1] > 1
        and (geometry.before[-1], geometry.dilation[-1]) == (0, 1)
        and taken % _NARROW_BLOCK != 0
        and window[-1] * taken % _NARROW_BLOCK == 0
        and geometry.stride[-1] * taken % _NARROW_BLOCK == 0
    )


def _spread_filters(weights: MemoryDesc) -> MemoryDesc:
    """Describe grouped filters as those of one group."""
    groups, made, taken, *window = weights.dims
    return filters((*window, groups * taken, groups * made), 1)


def _spread(weights: Array, groups: int) -> Array:
    """Return filters (spatial..., c / groups, k) as (spatial..., c, k): others' channels count 0."""
    *window, taken, made = weights.shape
    each = made // groups
    found = np.zeros((*window, groups, taken, groups, each), weights.dtype)
    for group in range(groups):
        found[..., group, :, group, :] = weights[..., group * each : (group + 1) * each]
    return found.reshape(*window, groups * taken, made)


def _images(shape: Shape, axes: int) -> MemoryDesc:
    """Describe dense (n, spatial..., c) with so many spatial axes."""
    return images((shape[0], *(1,) * (axes + 2 - len(shape)), *shape[1:]))


def _as_channels_first(call: KernelCall, geometry: Geometry) -> MemoryDesc | None:
    """Describe an image of few channels as it lies, channels first, where the result is pooled.

    For so few channels the library has a kernel of its own that takes no other order and gives a
    blocked result. It takes half the time; but what follows had better be content with that result.
    """
    layout, channels = call.layout(0), geometry.source.dims[1]
    if not isinstance(layout, Strided) or channels >= _FEW_CHANNELS:
        return None
    readers, last = call.readers(), (call.head, *(tail.view for tail in call.fused))[-1]
    fits = len(readers) == 1 and takes_blocks(readers[0], last.node)
    return layout.along(geometry.source) if fits else None


def arrangements(geometry: Geometry, layout: object) -> list[Arrangement]:
    """Return the arrangements of source and result to try, best first.

    Dense comes first: it is what the library chooses itself for most convolutions on AVX2 and
    AVX-512, what it is fastest with for those in small groups, and what every other op reads
    without a reorder. Then what the source is in already, then what the library likes best.
    """
    own = layout.desc if isinstance(layout, OneDnnLayout) else None
    return [(geometry.source, geometry.target), (own, None), (None, None)]


def _choose(
    geometry: Geometry, chain_in: Callable[[DataType], Chain], choices: Sequence[Arrangement]
) -> tuple[PrimitiveDesc, Chain] | None:
    """Describe the convolution in the first arrangement that is not a slow one."""
    for each in dict.fromkeys(choices):
        chain = chain_in(each[0].type if each[0] else DataType.F32)
        desc = convolution_desc(geometry, chain.ops, each)
        if not is_slow(desc):
            return desc, chain
        desc.close()
    return None


def ints(values: object) -> Shape:
    """Return a param's elements; those of ops of one axis are scalars or have one axis less."""
    return tuple(int(v) for v in np.asarray(values).reshape(-1))


def _by(desc: MemoryDesc) -> str:
    return "x".join(map(str, desc.dims))
