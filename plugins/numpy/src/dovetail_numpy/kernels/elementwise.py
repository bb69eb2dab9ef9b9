"""Elementwise functions of two tensors, with broadcasting."""

from __future__ import annotations

import functools
import math

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Make, Step, call_sequence
from dovetail_numpy.kernels import logic
from dovetail_numpy.kernels._calls import ROW, by_rows
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_plain, single_op_type
from dovetail_opset import STANDARD

# The function of both tensors, then functions applied to the result in place.
_Functions = tuple[np.ufunc, ...]
_OF_FLOATS: dict[str, _Functions] = {
    "ElementWiseAdd": (np.add,),
    "ElementWiseSubtract": (np.subtract,),
    "ElementWiseMultiply": (np.multiply,),
    "ElementWiseDivide": (np.divide,),
    "ElementWiseFloorDiv": (np.divide, np.floor),
    "ElementWiseFmod": (np.fmod,),
    "ElementWisePower": (np.power,),
    "ElementWiseMaximum": (np.maximum,),
    "ElementWiseMinimum": (np.minimum,),
    "ElementWiseSquaredDifference": (np.subtract, np.square),
}
_MOST_EXPONENT = 2**24  # float32 has all whole numbers up to it
# Truncating division and integer powers need more calls: they are left to the reference.
_OF_INTEGERS: dict[str, _Functions] = {
    "ElementWiseAdd": (np.add,),
    "ElementWiseSubtract": (np.subtract,),
    "ElementWiseMultiply": (np.multiply,),
    "ElementWiseFloorDiv": (np.floor_divide,),
    "ElementWiseMod": (np.remainder,),
    "ElementWiseFmod": (np.fmod,),
    "ElementWiseMaximum": (np.maximum,),
    "ElementWiseMinimum": (np.minimum,),
    "ElementWiseSquaredDifference": (np.subtract, np.square),
}


def _binary(call: KernelCall) -> Step | None:
    """Apply a NumPy function of two tensors, and then further functions to its result."""
    functions = _functions(single_op_type(call), call.outputs[0].dtype)
    if functions is None or not is_plain(call):
        return None
    first, *others = functions
    if first in (np.maximum, np.minimum) and (number := _number(call)) is not None:
        return _with_number(call, first, *number)
    # the result can overwrite either operand that has its shape
    in_place = [(0, i) for i in range(2) if call.spec(i).shape == call.outputs[0].shape]
    call.read(0)
    call.read(1)
    call.write()

    def run(a: Array, b: Array, out: Array) -> None:
        first(a, b, out=out)
        for other in others:
            other(out, out=out)

    return call.array_step(run, in_place=in_place)


def _number(call: KernelCall) -> tuple[int, Array] | None:
    """Return the index and data of a constant operand of one element, unless elements are few."""
    shape = call.outputs[0].shape
    for i in range(2):
        found = call.static(i)
        if found is not None and found.size == 1 and call.spec(1 - i).shape == shape:
            return (i, found) if math.prod(shape) >= ROW else None
    return None


def _with_number(call: KernelCall, function: np.ufunc, index: int, number: Array) -> Step:
    """Return the step of a maximum or minimum of a tensor and a number."""
    x, out, row = call.read(1 - index), call.write(), np.resize(number, ROW)

    def bind(buffers: Buffers) -> Bound:
        flat, result = (buffers.array(value).reshape(-1) for value in (x, out))
        return call_sequence(by_rows(function, flat, row, result))

    return call.step(bind, in_place=[(0, 0)])


def _functions(op_type: str, dtype: DType) -> _Functions | None:
    return (_OF_FLOATS if dtype.is_float else _OF_INTEGERS).get(op_type)


def _power(call: KernelCall) -> Step | None:
    """Apply np.power, with whole exponents to magnitudes: negative bases take 50 times as long.

    Integer powers of 2 are shifts, which take a hundredth of the reference's time. NumPy defines
    those by a negative number and by all bits: they are 0, like the powers.
    """
    if _is_two(call) and call.outputs[0].dtype.is_int and is_plain(call):
        exponents, _ = call.read(1), call.write()
        one = np.ones((), exponents.spec.dtype.storage)

        def shift(counts: Array, out: Array) -> None:
            np.left_shift(one, counts, out=out)

        return call.array_step(shift)
    exponent = whole_exponent(call)
    if exponent is None or not call.outputs[0].dtype.is_float or not is_plain(call):
        return _binary(call)
    call.read(0)
    call.write()
    return call.array_step(functools.partial(_whole_power, exponent))


def _is_two(call: KernelCall) -> bool:
    """Return whether the base of a power is 2, whose powers have the result's shape."""
    base = call.static(0)
    shapes_fit = call.spec(1).shape == call.outputs[0].shape
    return base is not None and base.size == 1 and base.reshape(-1)[0] == 2 and shapes_fit


def whole_exponent(call: KernelCall) -> int | None:
    """Return the exponent of a power if it is one constant whole number."""
    exponents = call.static(1)
    if exponents is None or exponents.size != 1 or call.spec(0).shape != call.outputs[0].shape:
        return None
    exponent = float(exponents.reshape(-1)[0])
    return int(exponent) if exponent.is_integer() and abs(exponent) <= _MOST_EXPONENT else None


def _whole_power(exponent: int, a: Array, out: Array) -> None:
    if exponent in (2, 3):
        np.multiply(a, a, out=out)
        if exponent == 3:
            np.multiply(out, a, out=out)
        return
    np.abs(a, out=out)
    np.power(out, out.dtype.type(exponent), out=out)
    if exponent % 2:
        np.copysign(out, a, out=out)


_MAKES: dict[str, Make] = {
    **dict.fromkeys(_OF_FLOATS | _OF_INTEGERS, _binary),
    "ElementWisePower": _power,
}
for _op_type, _make in _MAKES.items():
    KERNELS.register(STANDARD, _op_type)(_make)


@KERNELS.register(STANDARD, "ElementWiseBinary")
def by_number(call: KernelCall) -> Step | None:
    """Run ElementWiseBinary by the kernel of the op that its operation names."""
    op_type = single_op_type(call)
    return logic.truth(call) if op_type in logic.FUNCTIONS else _MAKES.get(op_type, _binary)(call)
