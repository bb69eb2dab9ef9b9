"""Resizing of stored integers by weights.

By some factors the library resizes bilinearly: it interpolates between stored integers, since all
weights of an element add up to 1. Positions and weights that are small multiples of a power of two
are exact, so that post-ops are the definition's float32 formula. Other weighted sums of bytes are
products of float32, whose results are settled where a tie is near; see `marked_step`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.interpolation import interpolation_rescale
from dovetail_numpy.integer.rescaling import Rescale, grid_of
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_onednn._api import (
    FORWARD_INFERENCE,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    ResamplingAlgorithm,
)
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.banded import Bands
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense, images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS, is_narrow
from dovetail_onednn.quantized.word_conversions import StoredReals, ending, step_of_words
from dovetail_onednn.steps import Arguments, is_slow
from dovetail_opset.ops.resize import Interpolation
from dovetail_opset.resampling import Coordinates, Taps

_FINEST = 64  # parts of an element along an axis
_MOST_ERROR = 2.0**-6  # in steps of the result
_BLOCK = 1 << 16  # elements that are computed by the definition at a time


def resize(call: KernelCall) -> Step | None:
    """Run Resize or ResizeBilinear by weights; see `Kernel.make`."""
    return (_resampled(call) if _has_half_pixels(call) else None) or _by_bands(call)


def _has_half_pixels(call: KernelCall) -> bool:
    """Return whether the library's own resizing has the positions of a call."""
    op, shape = call.op, call.outputs[0].shape
    if call.head.op_type == "ResizeBilinear":
        return bool(op.half_pixel_centers and not op.antialias)
    if op.interpolation_mode is not Interpolation.LINEAR:
        return False
    # PyTorch's differ for one element
    return op.transformation_mode is Coordinates.HALF_PIXEL or (
        op.transformation_mode is Coordinates.PYTORCH_HALF_PIXEL and 1 not in shape[1:-1]
    )


def _by_bands(call: KernelCall) -> Step | None:
    """Return the step of products of bytes with weights; None if the library has none."""
    data, out = call.spec(0), call.outputs[0]
    rescale = interpolation_rescale(call.head)
    if rescale is None or DEFINITIONS.of(call.head) is None or call.op.keeps:
        return None
    is_usual = (
        is_narrow(data) and is_narrow(out.spec) and not {data.dtype, out.dtype} - TYPES.keys()
    )
    if not is_usual or rescale.limits != out.dtype.stored_range():
        return None
    bands = Bands.of(call)
    if bands is None:
        return None
    is_exact = _is_exact(call, bands.largest_sum)
    near = None if is_exact else _near_ties(call, bands)
    if not is_exact and near is None:
        return None
    source, target = (dense((math.prod(s[:-1]), s[-1])) for s in (data.shape, out.shape))
    stages = Stages(call)
    stored = Argument(source.of_type(TYPES[data.dtype]), call.read(0))
    levels, real = stages.room(source), stages.room(target)
    stages.move(stored, levels, grid_of(data)[1])
    stages.add_works(bands.works(call, levels.value, real.value))
    if near is None:  # ties may be many, such as means of two integers
        result = Argument(target.of_type(TYPES[out.dtype]), call.write())
        factor, last = float(rescale.multiplier), ending(call, rescale)
        is_fast = stages.combine(BinaryAlgorithm.MULTIPLY, real, factor, result, last)
        return stages.step() if is_fast else None
    exact_of = partial(_exact_of, call, rescale, stored.value)
    return marked_step(call, stages, real.value, grid_of(data)[0], near, exact_of)


def _near_ties(call: KernelCall, bands: Bands) -> NearTies | None:
    """Return the rounding of weighted sums of levels; None if too many ties would be near."""
    (scale, zero, _), (step, shift, limits) = grid_of(call.spec(0)), grid_of(call.outputs[0].spec)
    farthest = max(abs(end - zero) for end in call.spec(0).dtype.stored_range())
    sums = bands.roundings * bands.largest_sum * farthest * scale / step
    # the definition rounds the sum, the factor, their product, and that plus the zero point
    defined = 4 * (max(map(abs, limits)) + abs(shift) + 1)
    error = (sums + defined) * ULP
    return NearTies(step, shift, limits, error) if error < _MOST_ERROR else None


def _exact_of(call: KernelCall, rescale: Rescale, data: Value, buffers: Buffers) -> Exact:
    """Return the function that computes elements by the definition."""
    old, out = call.spec(0), call.outputs[0]
    stored = buffers.array(data).reshape(old.shape)
    step, shift, _ = grid_of(out.spec)
    zero = grid_of(old)[1]
    taps = list(call.op.taps_by_axis(old.shape, out.shape).items())

    def exact(at: Places) -> Array:
        found = np.empty(len(at))
        for start in range(0, len(at), _BLOCK):  # all elements of one value may be ties
            block = slice(start, start + _BLOCK)
            sums = _sums(stored, zero, np.unravel_index(at[block], out.shape), taps)
            found[block] = rescale.apply(sums, out.spec)
        return (found - shift) * step  # real values of what the definition stores

    return exact


def _sums(
    stored: Array, zero: int, places: Sequence[Array], passes: Sequence[tuple[int, Taps]]
) -> Array:
    """Return weighted sums of levels at some positions after some passes, as the reference adds."""
    if not passes:
        return stored[tuple(places)].astype(np.float64) - zero
    *first, (axis, taps) = passes
    before, along, after = places[:axis], places[axis], places[axis + 1 :]
    weights = np.ones(taps.indices.shape) if taps.weights is None else taps.weights
    total = np.zeros(len(along))
    for index, weight in zip(taps.indices.T, weights.T, strict=True):
        total += _sums(stored, zero, (*before, index[along], *after), first) * weight[along]
    return total


def _resampled(call: KernelCall) -> Step | None:
    """Return the step of the library's own resizing; None if inexact."""
    data, out = call.spec(0), call.outputs[0]
    rescale, types = interpolation_rescale(call.head), {data.dtype, out.dtype}
    if DEFINITIONS.of(call.head) is None or rescale is None or 0 in data.shape:
        return None
    if types - WORDS - TYPES.keys():
        return None
    algorithm = _library_algorithm(call)
    if algorithm is None or not _is_exact(call):
        return None
    zero = grid_of(data)[1]
    slope = float(rescale.multiplier)
    ops = [
        *([Eltwise(Algorithm.LINEAR, 1.0, -float(zero))] if zero else []),
        *([Eltwise(Algorithm.LINEAR, slope)] if slope != 1 else []),
        *ending(call, rescale),
    ]
    source, target = images(data.shape), images(out.shape)
    if are_bytes := not types & WORDS:
        source, target = source.of_type(TYPES[data.dtype]), target.of_type(TYPES[out.dtype])
    description = Description(
        "resampling_forward",
        (ENGINE, FORWARD_INFERENCE, algorithm, None, source, target),
        lambda: f"an integer resampling of {source.key} to {target.key}",
        tuple(ops),
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        if are_bytes:
            arguments = Arguments(call, desc)
            arguments.read_plain(Arg.SOURCE, 0)
            arguments.write_plain(Arg.DESTINATION, 0)
            return arguments.step()
        stages, stored = Stages(call), StoredReals(call, 0)
        real = stages.room(target)
        stages.add(desc, {Arg.SOURCE: stored.argument(source), Arg.DESTINATION: real})
    return step_of_words(call, stages, [stored], real)


def _library_algorithm(call: KernelCall) -> ResamplingAlgorithm | None:
    """Return the library's algorithm with exact weights; None if it has none.

    Beyond the border, it adds an element to itself by the weights of its position there.
    """
    shapes = call.spec(0).shape, call.outputs[0].shape
    changed = [(old, new) for old, new in zip(*shapes, strict=True) if old != new]
    if all(old == 1 for old, _ in changed):  # copies
        return ResamplingAlgorithm.NEAREST
    # positions are (i + 1/2) * old / new - 1/2
    is_exact = all(_FINEST // 2 * old % new == 0 for old, new in changed)
    return ResamplingAlgorithm.LINEAR if is_exact else None


def _is_exact(call: KernelCall, largest_sum: float = 1.0) -> bool:
    """Return whether float32 holds all weighted sums of levels, and those of stored integers.

    Args:
        call: The call of the kernel.
        largest_sum: The largest sum of absolute weights of an element.
    """
    data, parts = call.spec(0), math.prod(_parts(call))
    zero = grid_of(data)[1]
    largest = max(max(abs(end), abs(end - zero)) for end in data.dtype.stored_range())
    return 0 < parts * largest * largest_sum <= EXACT


def _parts(call: KernelCall) -> Iterator[int]:
    """Yield, for each axis, of how many parts of an element its weights are; 0 if not few."""
    shapes = call.spec(0).shape, call.outputs[0].shape
    for old, new in zip(*shapes, strict=True):
        weights = call.op.taps(old, new).weights if old != new else None
        if weights is None:
            yield 1
            continue
        finest = weights * _FINEST
        is_exact = bool((finest == np.rint(finest)).all())
        least = np.gcd.reduce(finest.astype(np.int64), axis=None, initial=_FINEST)
        yield _FINEST // int(least) if is_exact else 0
