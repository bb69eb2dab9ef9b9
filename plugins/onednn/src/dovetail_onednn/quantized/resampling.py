"""Bilinear resizing of stored integers by factors for which float32 is exact.

The library interpolates between stored integers: all weights of an element add up to 1. Positions
and weights that are small multiples of a power of two are exact, so only the line into the result's
grid rounds. Bytes have a line in float32 that gives the definition's results; where there are 16
bits, it is the definition's own, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_narrow, is_tabular, level_on_grid
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import FORWARD_INFERENCE, Algorithm, Arg, ResamplingAlgorithm
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.settling import settled_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_conversions import StoredReals, rounding, step_of_words
from dovetail_onednn.steps import Arguments, is_slow

_FINEST = 64  # parts of an element along an axis
_MOST_PARTS = 256  # of an element of an image
_FARTHEST_ZERO = 1 << 20
_LARGEST_WORD = 1 << 21  # distance of stored integers from a zero point, and more
_LARGEST = 2.0**30  # far from where settling is not exact
_ULP = 2.0**-24  # a float32 operation is off by at most so much, relative to its result


def resize_bilinear(call: KernelCall) -> Step | None:
    """Run ResizeBilinear with half_pixel_centers, without antialias; see `Kernel.make`."""
    op, data, out = call.op, call.spec(0), call.outputs[0]
    if DEFINITIONS.of(call.head) is None or not (_is_usual(data) and _is_usual(out.spec)):
        return None
    if not op.half_pixel_centers or op.antialias:
        return None
    parts = math.prod(_parts(call))
    if not 0 < parts <= _MOST_PARTS:
        return None
    if {data.dtype, out.dtype} & WORDS:
        return _in_words(call)
    line = _line(call, parts)
    if line is None:
        return None
    source = images(data.shape).of_type(TYPES[data.dtype])
    target = images(out.shape).of_type(TYPES[out.dtype])
    ops = () if line == (1.0, 0.0) else (Eltwise(Algorithm.LINEAR, *line),)
    with PrimitiveDesc(_described(source, target, ops)) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, 0)
        arguments.write_plain(Arg.DESTINATION, 0)
        return arguments.step()


def _is_usual(spec: Spec) -> bool:
    """Return whether a tensor has bytes or words, and float32 has its interpolated integers."""
    if 0 in spec.shape or spec.dtype not in WORDS | TYPES.keys():
        return False
    return is_narrow(spec) if spec.dtype in TYPES else is_tabular(spec)


def _described(
    source: MemoryDesc, target: MemoryDesc, ops: tuple[Eltwise, ...] = ()
) -> Description:
    fused = "".join(f" + {op}" for op in ops)
    return Description(
        "resampling_forward",
        (ENGINE, FORWARD_INFERENCE, ResamplingAlgorithm.LINEAR, None, source, target),
        lambda: f"an integer resampling{fused} of {source.key} to {target.key}",
        ops,
    )


def _in_words(call: KernelCall) -> Step | None:
    """Return the step where data or result have 16 bits.

    A sum of weighted integers has at most 16 bits and 8 of the fraction, so float32 has it.
    """
    data, out = call.spec(0), call.outputs[0].spec
    (scale, zero, _), (step, shift, limits) = grid_of(data), grid_of(out)
    if not (scale > 0 and step > 0 and max(abs(zero), abs(shift)) < _FARTHEST_ZERO):
        return None
    if _LARGEST_WORD * scale / step > _LARGEST:
        return None
    source, target = images(data.shape), images(out.shape)
    is_same = (scale, zero) == (step, shift) and out.dtype in WORDS
    ops = tuple(rounding(limits)) if is_same else ()
    with PrimitiveDesc(_described(source, target, ops)) as desc:
        if is_slow(desc):
            return None
        stages, stored = Stages(call), StoredReals(call, 0)
        real = stages.room(target)
        stages.add(desc, {Arg.SOURCE: stored.argument(source), Arg.DESTINATION: real})
    if is_same:
        return step_of_words(call, stages, [stored], real)
    return settled_step(call, stages, [stored], real, (zero, scale / step))


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


def _line(call: KernelCall, parts: int) -> tuple[float, float] | None:
    """Return slope and start of the line from stored integers into the result's grid.

    None if rounding errors could change a result.

    Args:
        call: The call of the kernel.
        parts: Of an element, of which interpolated integers are multiples.
    """
    data, out = call.spec(0), call.outputs[0].spec
    (scale, zero, _), (step, shift, limits) = grid_of(data), grid_of(out)
    if limits != out.dtype.stored_range():
        return None
    if (scale, zero) == (step, shift):
        return 1.0, 0.0
    low, high = data.dtype.stored_range()
    between: Array = np.arange(low * parts, high * parts + 1) / parts
    wanted = level_on_grid(between - zero, data, out).astype(np.float64)
    slope = float(np.float32(scale / step))
    least = np.where(wanted == limits[0], -np.inf, wanted - 0.5) - slope * between
    most = np.where(wanted == limits[1], np.inf, wanted + 0.5) - slope * between
    start = float(np.float32((least.max() + most.min()) / 2))
    # product and sum are rounded; beyond the limits by more than 1, neither matters
    error = 2 * _ULP * (abs(start) + 2 * (max(map(abs, limits)) + 1))
    return (slope, start) if least.max() + error < start < most.min() - error else None
