"""Elementwise functions of two tensors, which broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_cpu.kernels._calls import is_float32
from dovetail_cpu.kernels._registry import KERNELS, PACKAGE

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ElementWiseAdd": np.add,
    "ElementWiseSubtract": np.subtract,
    "ElementWiseMultiply": np.multiply,
    "ElementWiseDivide": np.divide,
    "ElementWisePower": np.power,
    "ElementWiseMaximum": np.maximum,
    "ElementWiseMinimum": np.minimum,
}


@KERNELS.register(PACKAGE, "ElementWiseAdd")
@KERNELS.register(PACKAGE, "ElementWiseSubtract")
@KERNELS.register(PACKAGE, "ElementWiseMultiply")
@KERNELS.register(PACKAGE, "ElementWiseDivide")
@KERNELS.register(PACKAGE, "ElementWisePower")
@KERNELS.register(PACKAGE, "ElementWiseMaximum")
@KERNELS.register(PACKAGE, "ElementWiseMinimum")
def binary(call: KernelCall) -> Step | None:
    """One NumPy function of two tensors."""
    if not is_float32(call):
        return None
    function = _FUNCTIONS[call.head.op_type]
    places = _in_place(call)
    call.read(0)
    call.read(1)
    call.write()

    def run(a: Array, b: Array, out: Array) -> None:
        function(a, b, out=out)

    return call.array_step(run, in_place=places)


@KERNELS.register(PACKAGE, "ElementWiseSquaredDifference")
def squared_difference(call: KernelCall) -> Step | None:
    """(a - b) ** 2."""
    if not is_float32(call):
        return None
    places = _in_place(call)
    call.read(0)
    call.read(1)
    call.write()

    def run(a: Array, b: Array, out: Array) -> None:
        np.subtract(a, b, out)
        np.multiply(out, out, out)

    return call.array_step(run, in_place=places)


def _in_place(call: KernelCall) -> list[tuple[int, int]]:
    """Either operand's bytes will do that has the result's shape."""
    return [(0, i) for i in range(2) if call.spec(i).shape == call.outputs[0].shape]
