"""Local response normalization of stored bytes."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.norms import response, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_onednn._api import FORWARD_INFERENCE, LRN_ACROSS_CHANNELS, Arg
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, is_narrow
from dovetail_onednn.steps import is_slow

_VECTOR = 16
_POWER = 0.75  # the library computes it by roots, others by functions without a bound of errors
_ERRORS = 28 * ULP  # more than twice the operations from a level to a result
_LARGEST = 1e12  # far from overflow and underflow


def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels with exponent 0.75; see `Kernel.make`."""
    if not _is_usual(call):
        return None
    op, spec, out = call.op, call.spec(0), call.outputs[0]
    rows = images((1, 1, math.prod(spec.shape[:-1]), spec.shape[-1]))
    count, scale = 2 * int(op.radius) + 1, scale_of(spec)
    numbers = (count, single(op.alpha) * scale * scale * count, single(op.beta), single(op.bias))
    description = Description(
        "lrn_forward",
        (ENGINE, FORWARD_INFERENCE, LRN_ACROSS_CHANNELS, rows, rows, *numbers),
        lambda: f"a local response normalization of levels over {count} of {rows.key}",
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        data = Argument(rows.of_type(TYPES[spec.dtype]), call.read(0))
        levels, real = stages.room(rows), stages.room(rows)
        stages.move(data, levels, grid_of(spec)[1])
        stages.add(desc, {Arg.SOURCE: levels, Arg.DESTINATION: real})
    near = NearTies(*grid_of(out.spec), 0.0, _ERRORS)
    exact_of = partial(_exact_of, call, data.value)
    is_positive = grid_of(spec)[1] <= spec.dtype.stored_range()[0]
    return marked_step(
        call, stages, real.value, scale_of(spec), near, exact_of, is_positive=is_positive
    )


def _is_usual(call: KernelCall) -> bool:
    """Return whether the library's code serves a call, with numbers far from overflow."""
    op, spec, out = call.op, call.spec(0), call.outputs[0].spec
    rank = len(spec.shape)
    is_known = DEFINITIONS.of(call.head) is not None and is_narrow(spec) and is_narrow(out)
    if not is_known or {spec.dtype, out.dtype} - TYPES.keys() or 0 in spec.shape:
        return False
    if tuple(op.axes(rank)) != (rank - 1,) or spec.shape[-1] % _VECTOR or op.beta != _POWER:
        return False
    scale, zero, _ = grid_of(spec)
    step, _, limits = grid_of(out)
    low, high = spec.dtype.stored_range()
    sums = (2 * int(op.radius) + 1) * max(abs(low - zero), abs(high - zero)) ** 2
    most = single(op.bias) + single(op.alpha) * scale * scale * sums
    numbers = (single(op.bias), most, scale / step)
    are_normal = all(1 / _LARGEST < number < _LARGEST for number in numbers)
    return are_normal and sums < EXACT and limits == out.dtype.stored_range()


def _exact_of(call: KernelCall, data: Value, buffers: Buffers) -> Exact:
    """Return the function that computes elements by the definition."""
    spec, op = call.spec(0), call.op
    rows = buffers.array(data).reshape(-1, spec.shape[-1])
    radius, size, zero = int(op.radius), rows.shape[1], grid_of(spec)[1]

    def exact(at: Places) -> Array:
        row, column = np.divmod(at, size)
        columns = column[:, None] + np.arange(-radius, radius + 1)
        is_inside = (columns >= 0) & (columns < size)
        near = rows[row[:, None], np.clip(columns, 0, size - 1)].astype(np.int64) - zero
        sums = np.where(is_inside, np.square(near), 0).sum(1)
        return response(op, scale_of(spec), near[:, radius], sums)

    return exact
