"""Elementwise functions of two tensors, with broadcasting."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels import logic
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE
from dovetail_numpy.kernels.conditions import is_plain, single_op_type

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


def _functions(op_type: str, dtype: DType) -> _Functions | None:
    return (_OF_FLOATS if dtype.is_float else _OF_INTEGERS).get(op_type)


@KERNELS.register(PACKAGE, "ElementWiseBinary")
def by_number(call: KernelCall) -> Step | None:
    """Run ElementWiseBinary by the kernel of the op that its operation names."""
    return logic.truth(call) if single_op_type(call) in logic.FUNCTIONS else _binary(call)


for _op_type in _OF_FLOATS | _OF_INTEGERS:
    KERNELS.register(PACKAGE, _op_type)(_binary)
