"""Comparisons, logic and selection, with broadcasting."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer.grid import is_tabular
from dovetail_numpy.kernels._calls import copy, ufunc
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import NUMBERS, only_moves, single_op_type
from dovetail_opset import STANDARD

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
_FEW = 4096  # elements of which a masked copy takes less time than three passes
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


@KERNELS.register(STANDARD, "IsNan")
@KERNELS.register(STANDARD, "IsInf")
def test(call: KernelCall) -> Step | None:
    """Run IsNan, or IsInf of both signs."""
    x, out = call.spec(0), call.outputs[0]
    is_nan = call.head.op_type == "IsNan"
    if x.dtype is not DType.FLOAT_32 or 0 in out.shape:
        return None
    if not is_nan and not (call.op.detect_negative and call.op.detect_positive):
        return None
    function = np.isnan if is_nan else np.isinf
    call.read(0)
    call.write()
    return call.array_step(lambda values, result: function(values, out=result))


@KERNELS.register(STANDARD, "ElementWiseSelect", quantized=True)
@KERNELS.register(STANDARD, "ElementWiseSelect")
def select(call: KernelCall) -> Step | None:
    """Run ElementWiseSelect on the bits: b ^ ((a ^ b) * condition), which does not branch.

    A masked copy branches at every element, which takes ten times longer for irregular conditions
    of many elements.
    """
    out, chosen = call.outputs[0], call.spec(0)
    if chosen.dtype is not DType.BOOL_8 or 0 in chosen.shape or not only_moves(call, 1, 2):
        return None
    if out.encoding is not None and not is_tabular(out.spec):
        return None  # the definition has real values of more bits
    bits = np.dtype(f"u{out.dtype.storage.itemsize}")
    is_masked = _is_masked(call)
    first, second, condition, result = (*map(call.read, (1, 2, 0)), call.write())

    def bind(buffers: Buffers) -> Bound:
        left, right, into = (buffers.array(value).view(bits) for value in (first, second, result))
        chosen = buffers.array(condition)
        if is_masked:
            mask = partial(np.putmask, into, chosen.view(np.bool_), left)
            return call_sequence((copy(into, right), mask))
        return call_sequence(
            (
                ufunc(np.bitwise_xor, left, right, into),
                ufunc(np.multiply, into, chosen.view(np.uint8), into),
                ufunc(np.bitwise_xor, into, right, into),
            )
        )

    kept = 1 if is_masked else 0  # the operand that the result may overwrite
    return call.step(bind, in_place=[(0, kept)] if call.spec(1 + kept) == out.spec else [])


def _is_masked(call: KernelCall) -> bool:
    """Return whether a selection is of few elements, and a mask needs no broadcasting for it."""
    shape, chosen = call.outputs[0].shape, call.spec(1).shape
    is_full = call.spec(0).shape == shape and (chosen == shape or math.prod(chosen) == 1)
    return is_full and math.prod(shape) <= _FEW
