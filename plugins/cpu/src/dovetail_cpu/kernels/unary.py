"""Elementwise functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_cpu.kernels._calls import Call, is_float32, ufunc
from dovetail_cpu.kernels._flat import flat_step
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE

_FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "ElementWiseAbs": (np.abs,),
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


def _unary(call: KernelCall) -> Step | None:
    """One NumPy function after the other."""
    if not is_float32(call):
        return None
    functions = _FUNCTIONS[call.head.op_type]

    def passes(x: Array, out: Array) -> Iterator[Call]:
        source = x
        for function in functions:
            yield ufunc(function, source, out)
            source = out

    return flat_step(call, passes)


for _op_type in _FUNCTIONS:
    KERNELS.register(PACKAGE, _op_type)(_unary)
