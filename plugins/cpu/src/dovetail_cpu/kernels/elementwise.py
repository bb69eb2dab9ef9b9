"""Elementwise functions of two tensors, which broadcast."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import KernelCall, Step
from dovetail_cpu.kernels import logic
from dovetail_cpu.kernels._calls import is_plain, single_op_type
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE

# What is done to both tensors, then to the result in its place.
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
# Quotients towards zero and powers of integers take more: they are left to the reference.
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
    """One NumPy function of two tensors, perhaps one of the result after it."""
    functions = _functions(single_op_type(call), call.outputs[0].dtype)
    if functions is None or not is_plain(call):
        return None
    first, *others = functions
    # either operand's bytes will do that has the result's shape
    places = [(0, i) for i in range(2) if call.spec(i).shape == call.outputs[0].shape]
    call.read(0)
    call.read(1)
    call.write()

    def run(a: Array, b: Array, out: Array) -> None:
        first(a, b, out=out)
        for other in others:
            other(out, out=out)

    return call.array_step(run, in_place=places)


def _functions(op_type: str, dtype: DType) -> _Functions | None:
    return (_OF_FLOATS if dtype.is_float else _OF_INTEGERS).get(op_type)


@KERNELS.register(PACKAGE, "ElementWiseBinary")
def by_number(call: KernelCall) -> Step | None:
    """The kernel of the single op."""
    return logic.truth(call) if single_op_type(call) in logic.FUNCTIONS else _binary(call)


for _op_type in _OF_FLOATS | _OF_INTEGERS:
    KERNELS.register(PACKAGE, _op_type)(_binary)
