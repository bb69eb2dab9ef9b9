"""Pooling of stored integers, and their sums and means along axes.

Sums are convolutions with filters of ones, one for each channel: the library's own means are
rounded in another way. Its sums of unsigned bytes do not saturate with such filters; those of words
are float32, which is exact below 2**24.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, Rescale
from dovetail_numpy.integer.grid import is_all_levels
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.sums import sum_rescale
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_onednn._api import (
    SCALES,
    ZERO_POINTS,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    DataType,
    PoolingAlgorithm,
)
from dovetail_onednn._library import library
from dovetail_onednn.attributes import Binary, Eltwise, Quantization, operand
from dovetail_onednn.execution import Argument
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.layouts import OneDnnLayout, filters, images
from dovetail_onednn.maximum import MaximumWithZeros
from dovetail_onednn.pooling import zero_edges
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.stages import Stages, has_fast_terms
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals, ending, rounding, step_of_words
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import Arguments, is_slow
from dovetail_onednn.windows import Pooling

# With fewer, most of a vector of channels would be empty.
_LEAST_CHANNELS = 8
_VECTOR = 8


def pool_max(call: KernelCall) -> Step | None:
    """Run PoolMax2d and PoolMax3d between tensors of one encoding; see `Kernel.make`.

    The padding holds the zero point, which is compared afterwards with the windows at the edges.
    """
    spec = call.spec(0)
    is_known = 0 not in spec.shape and spec.dtype in WORDS | TYPES.keys()
    if DEFINITIONS.of(call.head) is None or not is_known or not only_moves(call, 0):
        return None
    if not is_all_levels(spec):
        return None
    _, zero, (low, high) = grid_of(spec)
    zero = min(max(zero, low), high)
    pooling = Pooling.of(call.head, PoolingAlgorithm.MAXIMUM)
    edges = list(zero_edges(call.head))
    if edges and zero == low and not pooling.has_empty_windows:
        edges = []  # no integer is smaller
    if spec.dtype in WORDS:
        return None if edges else _maximum_of_words(call, pooling)
    source, target = (images(shape).of_type(TYPES[spec.dtype]) for shape in _shapes(call))
    with PrimitiveDesc(pooling.described(source, target)) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, 0)
        arguments.write_plain(Arg.DESTINATION, 0)
        step = arguments.step()
    if not edges:
        return step
    return replace(step, bind=MaximumWithZeros(step.bind, step.writes[0], edges, zero))


def _maximum_of_words(call: KernelCall, pooling: Pooling) -> Step | None:
    """Return the step of maxima in float32, which holds words; None without fast code."""
    source, target = map(images, _shapes(call))
    ops = rounding(call, call.spec(0).dtype.stored_range())
    with PrimitiveDesc(pooling.described(source, target, ops)) as desc:
        if is_slow(desc):
            return None
        stages, stored = Stages(call), StoredReals(call, 0)
        real = stages.room(target)
        stages.add(desc, {Arg.SOURCE: stored.argument(source), Arg.DESTINATION: real})
    return step_of_words(call, stages, [stored], real)


def pool_avg(call: KernelCall) -> Step | None:
    """Run PoolAvg2d and PoolAvg3d; see `Kernel.make`."""
    if DEFINITIONS.of(call.head) is None or not _are_known(call):
        return None
    pooling = Pooling.of(call.head, PoolingAlgorithm.AVERAGE)
    if call.op.count_pad_for_edges:
        counts = np.asarray(float(math.prod(pooling.size)))
    else:
        counts = np.maximum(_counts(pooling), 1.0)
    return _summed(call, pooling, sum_rescale(call.head, counts))


def reduced(call: KernelCall) -> Step | None:
    """Run ReduceSum and ReduceMean along adjacent axes that others follow; see `Kernel.make`."""
    shape = call.spec(0).shape
    if DEFINITIONS.of(call.head) is None or not _are_known(call) or not len(call.op.axes):
        return None
    axes = sorted(int(axis) for axis in call.op.axes)
    first, end = axes[0], axes[-1] + 1
    outer, size, channels = (math.prod(s) for s in (shape[:first], shape[first:end], shape[end:]))
    if axes != list(range(first, end)) or channels < _LEAST_CHANNELS:
        return None
    count = size if call.head.op_type == "ReduceMean" else 1
    source, target = (outer, 1, size, channels), (outer, 1, 1, channels)
    one, none = (1, 1), (0, 0)
    row = Pooling(PoolingAlgorithm.AVERAGE, source, target, (1, size), one, none, none)
    return _summed(call, row, sum_rescale(call.head, np.asarray(float(count))))


def _summed(call: KernelCall, pooling: Pooling, rescale: Rescale | None) -> Step | None:
    """Return the step that rescales the sums of windows; None if the library has no fast code."""
    data, out = call.spec(0), call.outputs[0]
    if rescale is not None and {data.dtype, out.dtype} & WORDS:
        return _summed_words(call, pooling, rescale)
    if rescale is None or rescale.limits != out.dtype.stored_range():
        return None
    if data.dtype.is_signed and not library().has_vnni:
        return None  # the library halves the filters, to have room for data + 128
    multiplier = rescale.multiplier
    is_even = bool((multiplier == multiplier.flat[0]).all())
    if not is_even and pooling.source[-1] % _VECTOR:
        return None  # the library's code for AVX2 is wrong where a post-op reads part of a vector
    zeros = {int(Arg.SOURCE): grid_of(data)[1], int(Arg.DESTINATION): rescale.zero}
    zeros = {arg: zero for arg, zero in zeros.items() if zero}
    quantization = Quantization(((Arg.WEIGHTS, 0),) if is_even else (), tuple(zeros))
    geometry = _filter_of_ones(pooling)
    of_each = None if is_even else Binary(BinaryAlgorithm.MULTIPLY, geometry.target)
    arranged = (
        geometry.source.of_type(TYPES[data.dtype]),
        geometry.target.of_type(TYPES[out.dtype]),
    )
    post_ops = () if of_each is None else (of_each,)
    with convolution_desc(geometry, post_ops, arranged, quantization) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, 0)
        weights = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights.of_type(DataType.S8))
        ones = pack(np.ones(geometry.weights.dims, np.int8), weights)
        arguments.constant(Arg.WEIGHTS, call.constant(ones, weights), weights.desc)
        if of_each is None:
            arguments.numbers(SCALES | Arg.WEIGHTS, np.full(1, multiplier.flat[0], np.float32))
        else:
            full = np.ascontiguousarray(np.broadcast_to(multiplier, pooling.target), np.float32)
            arguments.constant(operand(0, of_each), call.constant(full), of_each.other)
        for arg, zero in zeros.items():
            arguments.numbers(ZERO_POINTS | arg, np.full(1, zero, np.int32))
        arguments.write_plain(Arg.DESTINATION, 0)
        return arguments.step()


def _summed_words(call: KernelCall, pooling: Pooling, rescale: Rescale) -> Step | None:
    """Return the step of `_summed` where there are 16 bits; None for one window.

    NumPy adds rows in less time: 196 of 672 words took 0.05 ms, and 0.13 here.
    """
    if math.prod(pooling.target[1:-1]) == 1:
        return None
    data, geometry = call.spec(0), _filter_of_ones(pooling)
    zero = grid_of(data)[1]
    farthest = max(abs(end - zero) for end in data.dtype.stored_range())
    if math.prod(pooling.size) * farthest >= EXACT:
        return None
    multiplier = np.ascontiguousarray(np.broadcast_to(rescale.multiplier, pooling.target))
    is_even = bool((multiplier == multiplier.flat[0]).all())
    of_each: Binary | Eltwise = Binary(BinaryAlgorithm.MULTIPLY, geometry.target)
    if is_even:
        of_each = Eltwise(Algorithm.LINEAR, float(multiplier.flat[0]))
    arranged, ops = (geometry.source, geometry.target), (of_each, *ending(call, rescale))
    with convolution_desc(geometry, ops, arranged) as desc:
        if is_slow(desc) or (zero and not has_fast_terms(geometry.source, geometry.source)):
            return None
        stages, stored = Stages(call), StoredReals(call, 0)
        read, total = stored.argument(geometry.source), stages.room(geometry.target)
        if zero:
            stages.add_terms((read, read), -float(zero))
        layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights)
        ones = call.constant(pack(np.ones(geometry.weights.dims, np.float32), layout), layout)
        arguments = {
            int(Arg.SOURCE): read,
            int(Arg.WEIGHTS): Argument(layout.desc, ones),
            int(Arg.DESTINATION): total,
        }
        if isinstance(of_each, Binary):
            arguments[operand(0, of_each)] = stages.numbers(multiplier, geometry.target)
        stages.add(desc, arguments)
    return step_of_words(call, stages, [stored], total)


def _filter_of_ones(pooling: Pooling) -> Geometry:
    """Return the depthwise convolution that adds up windows."""
    channels = pooling.source[-1]
    return Geometry(
        images(pooling.source),
        filters((*pooling.size, 1, channels), channels),
        None,
        images(pooling.target),
        pooling.stride,
        (1,) * len(pooling.size),
        pooling.before,
        pooling.after,
    )


def _counts(pooling: Pooling) -> Array:
    """Return the number of elements in each window, float64 (1, *spatial, 1)."""
    counts = np.ones((1,))
    for size, windows in zip(pooling.source[1:-1], pooling.windows(), strict=True):
        inside = [max(min(end, size) - max(start, 0), 0) for start, end in windows]
        counts = counts[..., None] * np.array(inside, np.float64)
    return np.asarray(counts[..., None])


def _shapes(call: KernelCall) -> tuple[Shape, Shape]:
    return call.spec(0).shape, call.outputs[0].shape


def _are_known(call: KernelCall) -> bool:
    """Return whether the first input and the result are of 8 or 16 bits, and not empty."""
    tensors, known = (call.spec(0), call.outputs[0].spec), WORDS | TYPES.keys()
    return all(spec.dtype in known and 0 not in spec.shape for spec in tensors)
