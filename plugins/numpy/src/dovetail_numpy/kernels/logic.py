"""Comparisons, logic and selection, with broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer.moves import requantizing_table
from dovetail_numpy.integer.tables import look_up
from dovetail_numpy.kernels._calls import Call, ufunc
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import NUMBERS, single_op_type
from dovetail_opset import STANDARD

OnGrid = Callable[[Buffers], tuple[Array, list[Call]]]

FUNCTIONS: dict[str, np.ufunc] = {
    "ElementWiseEqual": np.equal,
    "ElementWiseNotEqual": np.not_equal,
    "ElementWiseGreater": np.greater,
    "ElementWiseGreaterEqual": np.greater_equal,
    "ElementWiseLess": np.less,
    "ElementWiseLessEqual": np.less_equal,
    "ElementWiseAnd": np.logical_and,
    "ElementWiseOr": np.logical_or,
    "ElementWiseXor": np.logical_xor,
}
# Nothing is rounded here, so float16 need not be computed in float32.
_COMPARABLE = NUMBERS | {DType.BOOL_8, DType.FLOAT_16}


def truth(call: KernelCall) -> Step | None:
    """Run a comparison or a logical function of two tensors of one type; the result is BOOL_8."""
    left, right, out = call.spec(0), call.spec(1), call.outputs[0]
    if out.dtype is not DType.BOOL_8 or 0 in out.shape:
        return None
    if left.dtype is not right.dtype or left.dtype not in _COMPARABLE:
        return None
    function = FUNCTIONS[single_op_type(call)]
    # the result can overwrite an operand of BOOL_8 that has its shape
    in_place = [
        (0, i)
        for i, spec in enumerate((left, right))
        if (spec.dtype, spec.shape) == (out.dtype, out.shape)
    ]
    call.read(0)
    call.read(1)
    call.write()

    def run(a: Array, b: Array, result: Array) -> None:
        function(a, b, out=result)

    return call.array_step(run, in_place=in_place)


for _op_type in FUNCTIONS:
    KERNELS.register(STANDARD, _op_type)(truth)


@KERNELS.register(STANDARD, "ElementWiseSelect", quantized=True)
@KERNELS.register(STANDARD, "ElementWiseSelect")
def select(call: KernelCall) -> Step | None:
    """Run ElementWiseSelect on the bits: b ^ ((a ^ b) * condition), which does not branch.

    A masked copy branches at every element, which takes ten times longer for irregular conditions.
    """
    out, specs = call.outputs[0], [call.spec(i) for i in range(3)]
    if specs[0].dtype is not DType.BOOL_8 or any(0 in spec.shape for spec in specs):
        return None
    if not isinstance(out.encoding, ScaleOffset | None):
        return None  # under one scale for each channel a broadcast integer represents other values
    if not all(_is_same_grid(spec, out.spec) or _can_move(spec, out.spec) for spec in specs[1:]):
        return None
    first, second = _on_grid(call, 1), _on_grid(call, 2)
    condition, result = call.read(0), call.write()
    bits = np.dtype(f"u{out.dtype.storage.itemsize}")
    is_in_place = specs[1] == out.spec  # then it is the first that was declared

    def bind(buffers: Buffers) -> Bound:
        chosen = buffers.array(condition).view(np.uint8)
        (a, before), (b, then) = first(buffers), second(buffers)
        left, right, into = (array.view(bits) for array in (a, b, buffers.array(result)))
        return call_sequence(
            (
                *before,
                *then,
                ufunc(np.bitwise_xor, left, right, into),
                ufunc(np.multiply, into, chosen, into),
                ufunc(np.bitwise_xor, into, right, into),
            )
        )

    return call.step(bind, in_place=[(0, 0)] if is_in_place else [])


def _is_same_grid(spec: Spec, other: Spec) -> bool:
    return (spec.dtype, spec.encoding) == (other.dtype, other.encoding)


def _can_move(spec: Spec, out: Spec) -> bool:
    return out.dtype.is_fixed_point and requantizing_table(spec, out) is not None


def _on_grid(call: KernelCall, index: int) -> OnGrid:
    """Declare that a call reads an operand, and return its function for the result's grid.

    The function returns the operand, and the calls that compute it.
    """
    spec, out = call.spec(index), call.outputs[0].spec
    table = None if _is_same_grid(spec, out) else requantizing_table(spec, out)
    if table is None:
        value = call.read(index)
        return lambda buffers: (buffers.array(value), [])
    stored = call.static(index)
    if stored is not None:
        moved = call.constant(look_up(table, stored))
        return lambda buffers: (buffers.array(moved).reshape(spec.shape), [])
    value, entries = call.read(index), call.constant(table)
    room = call.scratch(math.prod(spec.shape) * table.itemsize)

    def bind(buffers: Buffers) -> tuple[Array, list[Call]]:
        found = buffers.array(room).view(table.dtype).reshape(spec.shape)
        source, known = buffers.array(value), buffers.array(entries)
        each = source.view(f"u{source.itemsize}")
        # no index exceeds the table; with mode="raise", NumPy would write into a copy
        return found, [functools.partial(known.take, each, None, found, "wrap")]

    return bind
