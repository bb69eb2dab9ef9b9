"""Elementwise functions of one tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array, DType
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels._calls import Call, ufunc
from dovetail_numpy.kernels._flat import flat_step
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_plain, single_op_type
from dovetail_opset import STANDARD

_Functions = tuple[np.ufunc, ...]
_OF_FLOATS: dict[str, _Functions] = {
    "ElementWiseAbs": (np.absolute,),
    "ElementWiseAsin": (np.arcsin,),
    "ElementWiseAtan": (np.arctan,),
    "ElementWiseCeil": (np.ceil,),
    "ElementWiseCos": (np.cos,),
    "ElementWiseExp": (np.exp,),
    "ElementWiseFloor": (np.floor,),
    "ElementWiseLog": (np.log,),
    "ElementWiseNeg": (np.negative,),
    "ElementWiseRound": (np.rint,),
    "ElementWiseRsqrt": (np.sqrt, np.reciprocal),
    "ElementWiseSign": (np.sign,),
    "ElementWiseSin": (np.sin,),
    "ElementWiseSquareRoot": (np.sqrt,),
}
_OF_INTEGERS: dict[str, _Functions] = {
    "ElementWiseAbs": (np.absolute,),
    "ElementWiseNeg": (np.negative,),
    "ElementWiseSign": (np.sign,),
}
_OF_TRUTHS: dict[str, _Functions] = {"ElementWiseNot": (np.logical_not,)}
# Operations of ElementWiseUnary that have no separate op.
_NAMELESS: dict[str, _Functions] = {"Reciprocal": (np.reciprocal,)}


def _unary(call: KernelCall) -> Step | None:
    """Apply NumPy functions one after the other."""
    functions = _functions(single_op_type(call), call)
    if functions is None:
        return None

    def passes(x: Array, out: Array) -> Iterator[Call]:
        source = x
        for function in functions:
            yield ufunc(function, source, out)
            source = out

    return flat_step(call, passes, in_blocks=len(functions) > 1)


def _functions(op_type: str, call: KernelCall) -> _Functions | None:
    dtype = call.outputs[0].dtype
    if dtype is DType.BOOL_8 and 0 not in call.outputs[0].shape:
        return _OF_TRUTHS.get(op_type)
    if not is_plain(call):
        return None
    return (_OF_FLOATS | _NAMELESS if dtype.is_float else _OF_INTEGERS).get(op_type)


for _op_type in ("ElementWiseUnary", *_OF_FLOATS, *_OF_TRUTHS):
    KERNELS.register(STANDARD, _op_type)(_unary)
