"""Local response normalization of stored bytes.

The library computes in float32, and marks the elements whose result may differ from the
definition's: those near a tie. These few are computed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_narrow
from dovetail_numpy.integer.norms import response, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.near_ties import NearTies
from dovetail_onednn._api import (
    FORWARD_INFERENCE,
    LRN_ACROSS_CHANNELS,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    DataType,
)
from dovetail_onednn.attributes import Binary, Eltwise, PostOp, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.steps import is_slow

_VECTOR = 16
_POWER = 0.75  # the library computes it by roots, others by functions without a bound of errors
_ULP = 2.0**-24  # a float32 operation is off by at most so much, relative to its result
_ERRORS = 28 * _ULP  # more than twice the operations from a level to a result
_FARTHEST = 512  # steps from a result to its zero point
_SLACK = 2.0**-16  # what is nearer to the bound may not be marked
_LARGEST = 1e12  # far from overflow and underflow
_EXACT = 1 << 24  # float32 has all whole numbers up to this one


def lrn(call: KernelCall) -> Step | None:
    """Run Lrn across channels with exponent 0.75; see `Kernel.make`."""
    if not _is_usual(call):
        return None
    op, spec, out = call.op, call.spec(0), call.outputs[0]
    rows = images((1, 1, math.prod(spec.shape[:-1]), spec.shape[-1]))
    step, shift, limits = grid_of(out.spec)
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
        stages, stored = Stages(call), Argument(rows.of_type(TYPES[out.dtype]), call.write())
        data = Argument(rows.of_type(TYPES[spec.dtype]), call.read(0))
        levels, real = stages.room(rows), stages.room(rows)
        marks = stages.room(rows.of_type(DataType.U8))
        stages.move(data, levels, grid_of(spec)[1])
        stages.add(desc, {Arg.SOURCE: levels, Arg.DESTINATION: real})
    factor = scale / step
    low, high = map(float, limits)
    certain = 0.5 - _FARTHEST * _ERRORS - _SLACK
    chain: tuple[PostOp, ...] = (Eltwise(Algorithm.LINEAR, 1.0, float(shift)),)
    _scaled(stages, real, factor, stored, chain)
    chain += (
        Eltwise(Algorithm.CLIP, low, high),
        Binary(BinaryAlgorithm.SUBTRACT, stored.desc),
        Eltwise(Algorithm.ABS),
        Eltwise(Algorithm.LINEAR, 1 / _SLACK, -certain / _SLACK),
    )
    _scaled(stages, real, factor, marks, chain, stored)
    near = _Marked(call, data.value, stored.value, marks.value, NearTies(step, shift, limits, 0.0))
    run = stages.execution()
    return call.step(lambda buffers: call_sequence((run(buffers), near.bind(buffers))))


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
    return are_normal and sums < _EXACT and limits == out.dtype.stored_range()


def _scaled(
    stages: Stages,
    source: Argument,
    factor: float,
    target: Argument,
    chain: tuple[PostOp, ...],
    other: Argument | None = None,
) -> None:
    """Add a product with a number, post-ops, and perhaps the tensor that one of them reads."""
    number = MemoryDesc.strided((1,) * len(source.desc.dims), (1,) * len(source.desc.dims))
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.MULTIPLY, source.desc, number, target.desc),
        lambda: f"a rounded local response of {source.desc.key}",
        chain,
    )
    with PrimitiveDesc(description) as desc:
        arguments = {
            int(Arg.SOURCE): source,
            int(Arg.OTHER): stages.numbers(np.full(1, factor, np.float32), number),
            int(Arg.DESTINATION): target,
        }
        for position, op in enumerate(chain):
            if isinstance(op, Binary) and other is not None:
                arguments[operand(position, op)] = other
        stages.add(desc, arguments)


@dataclass(frozen=True, slots=True)
class _Marked:
    """The exact computation of marked elements.

    Attributes:
        call: The call of the kernel.
        data, stored, marks: Stored integers, those of the result, and marks that are not 0.
        near: The rounding.
    """

    call: KernelCall
    data: Value
    stored: Value
    marks: Value
    near: NearTies

    def bind(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        rows = buffers.array(self.data).reshape(-1, self.call.spec(0).shape[-1])
        result = buffers.array(self.stored).reshape(-1)
        marks = buffers.array(self.marks)[: result.size]
        words = marks.view(np.uint64)  # vectors of channels fill them

        def run() -> None:
            marked = np.flatnonzero(words)
            if marked.size:
                which, byte = np.nonzero(marks.reshape(-1, words.itemsize)[marked])
                at = marked[which] * words.itemsize + byte
                result[at] = self.near.rounded(self._real(rows, at))

        return run

    def _real(self, rows: Array, at: NDArray[np.intp]) -> Array:
        """Return the real results of some elements, by the definition."""
        spec, op = self.call.spec(0), self.call.op
        radius, size, zero = int(op.radius), rows.shape[1], grid_of(spec)[1]
        row, column = np.divmod(at, size)
        columns = column[:, None] + np.arange(-radius, radius + 1)
        is_inside = (columns >= 0) & (columns < size)
        near = rows[row[:, None], np.clip(columns, 0, size - 1)].astype(np.int64) - zero
        sums = np.where(is_inside, np.square(near), 0).sum(1)
        return response(op, scale_of(spec), near[:, radius], sums)
