"""Softmax of stored bytes along the last axis."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.norms import power_table, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_onednn._api import FORWARD_INFERENCE, SOFTMAX_ACCURATE, Arg
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, is_narrow
from dovetail_onednn.steps import is_slow

_BYTE = 1 << 8
_LEAST = 1 << 14  # with fewer elements, the calls of primitives take as long as NumPy's
# Of exponentials and of a quotient of their sums: the library's exponentials are off by some 4.
_ERRORS = 128 * ULP
_MOST_ERROR = 2.0**-14
_FEWEST_STEPS, _MOST_STEPS = 16.0, 512.0


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax along the last axis; see `Kernel.make`."""
    spec, out, op = call.spec(0), call.outputs[0], call.op
    if DEFINITIONS.of(call.head) is None or not (is_narrow(spec) and is_narrow(out.spec)):
        return None
    total = math.prod(spec.shape)
    if {spec.dtype, out.dtype} - TYPES.keys() or total < _LEAST:
        return None
    step, _, limits = grid_of(out.spec)
    # arguments up to this one are rounded before their differences
    farthest = abs(single(op.beta)) * scale_of(spec) * _BYTE
    errors = 2 * farthest * ULP + _ERRORS
    is_usual = errors < _MOST_ERROR and _FEWEST_STEPS < 1 / step < _MOST_STEPS
    if op.axis != len(spec.shape) - 1 or not is_usual or limits != out.dtype.stored_range():
        return None
    rows = dense((total // spec.shape[-1], spec.shape[-1]))
    description = Description(
        "softmax_forward",
        (ENGINE, FORWARD_INFERENCE, SOFTMAX_ACCURATE, rows, rows, 1),
        lambda: f"a softmax of {rows.key}",
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        data = Argument(rows.of_type(TYPES[spec.dtype]), call.read(0))
        real = stages.room(rows)
        stages.move(data, real, scale=single(op.beta) * scale_of(spec))
        stages.add(desc, {Arg.SOURCE: real, Arg.DESTINATION: real})
    near = NearTies(*grid_of(out.spec), 0.0, errors)
    exact_of = partial(_exact_of, call, data.value)
    return marked_step(call, stages, real.value, 1.0, near, exact_of, is_positive=True)


def _exact_of(call: KernelCall, data: Value, buffers: Buffers) -> Exact:
    """Return the function that computes elements by the definition."""
    spec, beta = call.spec(0), single(call.op.beta)
    rows = buffers.array(data).reshape(-1, spec.shape[-1])
    powers = power_table(abs(beta) * scale_of(spec), _BYTE)

    def exact(at: Places) -> Array:
        row, column = np.divmod(at, rows.shape[1])
        q = rows[row].astype(np.int64)
        first = q.max(1, keepdims=True) if beta >= 0 else q.min(1, keepdims=True)
        of_each = powers[np.abs(first - q)]
        return np.asarray(of_each[np.arange(len(at)), column] / of_each.sum(1))

    return exact
