"""Recurrent layers: one matrix product for all inputs, then step after step in the same buffers.

A sigmoid is (1 + tanh(x / 2)) / 2. The packed weights contain the factor 1/2, so one tanh serves
all gates of a step.
"""

from __future__ import annotations

import functools

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, constant, copy, floats, scratch_floats
from dovetail_numpy.kernels._recurrence import (
    HALF,
    Layer,
    Packing,
    halved,
    is_layer,
    read_optional,
    set_state,
    shifted,
    short,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD
from dovetail_opset.lstm_ports import (
    ANY_NORM,
    ANY_PEEPHOLE,
    BIASES,
    MATRICES,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    START_C,
    START_H,
)

_LSTM_WEIGHTS = tuple(sorted((*MATRICES, *BIASES, *PEEPHOLES)))
_GRU_WEIGHTS = tuple(range(1, 13))


@KERNELS.register(STANDARD, "Lstm")
def lstm(call: KernelCall) -> Step | None:
    """Run Lstm with constant weights, without norms, `reset` and the outputs of single gates."""
    if len(call.outputs) > 3 or not is_layer(call, _LSTM_WEIGHTS, left_out=(ANY_NORM, RESET)):
        return None
    return call.step(_Lstm(call).bind)


@KERNELS.register(STANDARD, "Gru")
def gru(call: KernelCall) -> Step | None:
    """Run Gru with constant weights and without `reset`."""
    if not is_layer(call, _GRU_WEIGHTS, left_out=(14,)):
        return None
    return call.step(_Gru(call).bind)


class _Lstm:
    def __init__(self, call: KernelCall) -> None:
        pack = Packing(call, _LSTM_WEIGHTS).packed
        self._units = call.spec(1).shape[0]
        self._cell_limit: float = call.op.cell_clip_threshold
        self._limit: float = call.op.output_clip_threshold
        # (output size, sums): a product with a row-major matrix is up to five times as fast as with
        # a transposed one
        self._recurrent = pack("recurrent", lambda w: halved(w.recurrent, len(w.bias)).T)
        bias = pack("bias", lambda w: halved(w.bias, len(w.bias)).reshape(-1))
        inputs = pack("inputs", lambda w: halved(w.inputs, len(w.bias)).T)
        self._peepholes = self._projection = self._projection_bias = None
        if call.has(ANY_PEEPHOLE):
            self._peepholes = pack("peepholes", lambda w: w.peepholes * HALF)
        if call.has(PROJECTION):
            self._projection = pack("projection", lambda w: w.projection.T)
        if call.has(PROJECTION_BIAS):
            self._projection_bias = call.static(PROJECTION_BIAS)
        self._layer = Layer(call, inputs, bias, self._recurrent.shape[0], state=START_H)
        self._c = read_optional(call, START_C)
        self._last_c, self._last_h = call.write(1), call.write(2)
        self._sums = scratch_floats(call, self._layer.batch * len(bias))
        self._pads = [scratch_floats(call, self._layer.batch * self._units) for _ in range(2)]

    def bind(self, buffers: Buffers) -> Bound:
        before, start, steps = self._layer.bind(buffers)
        c, last = buffers.array(self._last_c), buffers.array(self._last_h)
        prepare = call_sequence([*before, set_state(c, buffers, self._c)])
        sums = floats(buffers, self._sums).reshape(self._layer.batch, -1)
        taken, spare = (floats(buffers, pad).reshape(c.shape) for pad in self._pads)
        inner = tuple(self._cell_calls(sums, c, taken, spare))
        gate = sums[:, -2 * self._units : -self._units]
        finish = copy(last, steps[-1][1])
        recurrent, projection, settle = self._recurrent, self._projection, self._settle

        def run() -> None:
            prepare()
            h = start
            for x, y in steps:
                np.dot(h, recurrent, sums)
                np.add(sums, x, sums)
                for call in inner:
                    call()
                if projection is None:
                    np.multiply(gate, spare, y)
                else:
                    np.multiply(gate, spare, spare)
                    np.matmul(spare, projection, y)
                    settle(y)
                h = y
            finish()

        return run

    def _cell_calls(self, sums: Array, c: Array, taken: Array, spare: Array) -> list[Call]:
        """Return the calls that write the new cell to c, its tanh to spare, and o to the sums."""
        units = self._units
        *early, out, new = (sums[:, at : at + units] for at in range(0, sums.shape[1], units))
        calls: list[Call] = []
        if self._peepholes is None:
            opened = sums[:, :-units]
            calls.append(short(np.tanh, sums, sums))
        else:
            for gate, peephole in zip(early, self._peepholes[:-1], strict=True):
                calls += _seen(gate, c, peephole, spare)
            opened = sums[:, : -2 * units]
            calls += [short(np.tanh, opened, opened), short(np.tanh, new, new)]
        calls += shifted(opened)
        if len(early) == 1:  # the input gate is coupled
            calls.append(short(np.subtract, constant(1), early[0], taken))
        else:
            taken = early[0]
        calls += [
            short(np.multiply, taken, new, new),
            short(np.multiply, early[-1], c, c),
            short(np.add, c, new, c),
        ]
        if limit := self._cell_limit:
            calls.append(functools.partial(_clip, c, constant(limit)))
        if self._peepholes is not None:
            calls += _seen(out, c, self._peepholes[-1], spare)
            calls += [short(np.tanh, out, out), *shifted(out)]
        return [*calls, short(np.tanh, c, spare)]

    def _settle(self, y: Array) -> None:
        """Add the bias to a projected h and clip it."""
        if self._projection_bias is not None:
            np.add(y, self._projection_bias, y)
        if self._limit:
            _clip(y, self._limit)


def _seen(gate: Array, c: Array, peephole: Array, spare: Array) -> list[Call]:
    return [short(np.multiply, c, peephole, spare), short(np.add, gate, spare, gate)]


def _clip(x: Array, limit: float | Array) -> None:
    np.minimum(x, limit, out=x)
    np.maximum(x, -limit, out=x)


class _Gru:
    def __init__(self, call: KernelCall) -> None:
        self._is_linear = bool(call.op.linear_before_reset)
        pack = Packing(call, _GRU_WEIGHTS, f"linear {self._is_linear}").packed
        units = self._units = call.spec(1).shape[0]
        bias = pack("bias", lambda w: halved(w.bias, 3))
        inputs = pack("inputs", lambda w: halved(w.inputs, 3).T)
        if self._is_linear:
            self._recurrent = pack("recurrent", lambda w: halved(w.recurrent, 3).T)
            self._of_new = pack("bias of new", lambda w: w.new_bias)
        else:
            self._recurrent = pack("recurrent", lambda w: (w.recurrent[: 2 * units] * HALF).T)
            self._of_new = pack("new", lambda w: w.recurrent[2 * units :].T)
        self._layer = Layer(call, inputs, bias, units, state=13)
        self._last = call.write(1)
        batch = self._layer.batch
        self._sums = scratch_floats(call, batch * self._recurrent.shape[1])
        self._pads = [scratch_floats(call, batch * units) for _ in range(2)]

    def bind(self, buffers: Buffers) -> Bound:
        before, start, steps = self._layer.bind(buffers)
        prepare, units = call_sequence(before), self._units
        sums = floats(buffers, self._sums).reshape(len(start), -1)
        spare, dimmed = (floats(buffers, pad).reshape(start.shape) for pad in self._pads)
        opened = sums[:, : 2 * units]
        update, reset = opened[:, :units], opened[:, units:]
        scale, shift = shifted(opened)
        finish = copy(buffers.array(self._last)[0], steps[-1][1])
        arrays = [(x[:, : 2 * units], x[:, 2 * units :], y) for x, y in steps]
        recurrent, of_new, is_linear = self._recurrent, self._of_new, self._is_linear
        new = sums[:, 2 * units :] if is_linear else dimmed

        def run() -> None:
            prepare()
            h = start
            for gates_of_x, new_of_x, y in arrays:
                np.dot(h, recurrent, sums)
                np.add(opened, gates_of_x, opened)
                np.tanh(opened, opened)
                scale()
                shift()
                if is_linear:
                    np.add(new, of_new, new)
                    np.multiply(new, reset, new)
                else:
                    np.multiply(h, reset, spare)
                    np.dot(spare, of_new, new)
                np.add(new, new_of_x, new)
                np.tanh(new, new)
                np.subtract(h, new, spare)
                np.multiply(spare, update, spare)
                np.add(new, spare, y)
                h = y
            finish()

        return run
