"""Bilinear resizing of stored integers by factors for which float32 is exact.

The library interpolates between stored integers: all weights of an element add up to 1. Positions
and weights that are small multiples of a power of two are exact, so that post-ops are the
definition's float32 formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.interpolation import interpolation_rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import FORWARD_INFERENCE, Algorithm, Arg, ResamplingAlgorithm
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals, ending, step_of_words
from dovetail_onednn.steps import Arguments, is_slow

_FINEST = 64  # parts of an element along an axis


def resize_bilinear(call: KernelCall) -> Step | None:
    """Run ResizeBilinear with half_pixel_centers, without antialias; see `Kernel.make`."""
    op, data, out = call.op, call.spec(0), call.outputs[0]
    rescale, types = interpolation_rescale(call.head), {data.dtype, out.dtype}
    if DEFINITIONS.of(call.head) is None or rescale is None or 0 in data.shape:
        return None
    if not op.half_pixel_centers or op.antialias or types - WORDS - TYPES.keys():
        return None
    zero = grid_of(data)[1]
    largest = max(max(abs(end), abs(end - zero)) for end in data.dtype.stored_range())
    parts = math.prod(_parts(call))
    if not 0 < parts * largest <= EXACT:
        return None
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
        (ENGINE, FORWARD_INFERENCE, ResamplingAlgorithm.LINEAR, None, source, target),
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
