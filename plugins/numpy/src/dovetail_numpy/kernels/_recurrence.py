"""Helpers of recurrent layers: packed weights, and the product of all x with them in advance."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Value
from dovetail_numpy.kernels._calls import Call, Floats, constant, floats, scratch_floats, ufunc
from dovetail_numpy.kernels.conditions import is_float32

HALF = constant(0.5)


def is_layer(call: KernelCall, weights: tuple[int, ...], left_out: tuple[int, ...]) -> bool:
    """Return whether weights are constant, tensors float32 and the `left_out` inputs missing."""
    known = all(call.static(i) is not None for i in weights if call.has(i))
    return known and is_float32(call) and not any(call.has(i) for i in left_out)


class Packing:
    """The op's prepared weights, packed once per context.

    Args:
        call: The call of the layer.
        ports: Inputs that are weights.
        variant: Everything but the weights that the forms depend on, as text.
    """

    def __init__(self, call: KernelCall, ports: tuple[int, ...], variant: str = "") -> None:
        self._call, self._ports, self._variant = call, ports, variant
        self._weights: Any = None

    def packed(self, name: str, make: Callable[[Any], Array]) -> Floats:
        """Return a form of the weights: `make` of the result of the op's `packed`."""
        form = f"cpu.{self._call.head.op_type}.{name} {self._variant}"
        return self._call.packed(self._ports, form, lambda arrays, _: make(self._joined(arrays)))

    def _joined(self, arrays: Sequence[Array | None]) -> Any:
        """Return the result of the op's `packed`, computed once for all forms."""
        if self._weights is None:
            inputs: list[Array | None] = [None] * len(self._call.tensors)
            for port, array in zip(self._ports, arrays, strict=True):
                if port < len(inputs):
                    inputs[port] = array
            self._weights = self._call.op.packed(inputs)
        return self._weights


class Layer:
    """The sequences and the h of a layer.

    Args:
        call: The call of the layer.
        inputs: Weights of x, (input size, sums).
        bias: (sums,).
        size: Elements of h.
        state: The input with h before the first step.
    """

    def __init__(
        self, call: KernelCall, inputs: Floats, bias: Floats, size: int, state: int
    ) -> None:
        self._op = call.op
        self._inputs, self._bias = inputs, bias
        self._shape = call.spec(0).shape
        view = np.broadcast_to(np.empty((), np.int8), self._shape)  # of one element
        self.batch: int = self._op.in_order(view).shape[1]
        self._size = size
        self._x, self._h, self._out = call.read(0), read_optional(call, state), call.write(0)
        count = int(np.prod(self._shape[:-1])) * len(bias)
        self._sums, self._start = (
            scratch_floats(call, count),
            scratch_floats(call, self.batch * size),
        )

    def bind(self, buffers: Buffers) -> tuple[list[Call], Floats, list[tuple[Array, Array]]]:
        """Return the calls before the steps, and the arrays of the steps.

        Returns:
            Calls that multiply all x and set h; the array of h, (batch, size); for each step in
            order its sums, (batch, sums), and the array for its h.
        """
        x = buffers.array(self._x).reshape(-1, self._shape[-1])
        sums = floats(buffers, self._sums).reshape(len(x), len(self._bias))
        h = floats(buffers, self._start).reshape(self.batch, self._size)
        before: list[Call] = [
            functools.partial(np.dot, x, self._inputs, sums),
            ufunc(np.add, sums, self._bias, sums),
            set_state(h, buffers, self._h),
        ]
        by_step = self._op.in_order(sums.reshape(*self._shape[:-1], len(self._bias)))
        results = self._op.in_order(buffers.array(self._out))
        return before, h, list(zip(by_step, results, strict=True))


def set_state(state: Array, buffers: Buffers, given: Value | None) -> Call:
    """Return a call that sets a state to an input, or to 0 without one."""
    if given is None:
        return functools.partial(state.fill, 0)
    return functools.partial(np.copyto, state, buffers.array(given).reshape(state.shape))


def read_optional(call: KernelCall, index: int) -> Value | None:
    """Declare that the step reads an optional input; return its value, or None."""
    return call.read(index) if call.has(index) else None


def halved(weights: Array, gates: int) -> Array:
    """Return weights or biases, (gates * units, ...), halved for all gates but the last."""
    factors = np.full((gates, 1), HALF)
    factors[-1] = 1
    parts: Array = weights.reshape(gates, -1) * factors
    return parts.reshape(weights.shape)


def short(function: np.ufunc, *arrays: Array) -> Call:
    """Return a call of a NumPy function; the last array receives the result.

    Unlike `ufunc` it passes no keyword: a call on a few hundred elements takes a third less time,
    and a step has some ten of them. np.maximum and np.minimum need the keyword.
    """
    return functools.partial(function, *arrays)


def shifted(gates: Array) -> tuple[Call, Call]:
    """Return the calls that convert tanh(x / 2) into sigmoids."""
    return short(np.multiply, gates, HALF, gates), short(np.add, gates, HALF, gates)
