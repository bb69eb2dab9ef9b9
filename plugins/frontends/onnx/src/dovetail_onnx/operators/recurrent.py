"""Recurrent layers: one op for each direction, or single steps for what the ops lack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._gated import unrolled_gru, unrolled_lstm
from dovetail_onnx.operators._recurrence import Layer, has_functions, read_layer
from dovetail_onnx.operators._table import ONNX

# Where QNN's Lstm has the weights of x, of h and the bias of ONNX's gates, which are i, o, f, c.
_LSTM_PORTS = ((16, 17, 21), (3, 6, 9), (1, 4, 7), (2, 5, 8))
LSTM_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")
GRU_FUNCTIONS = ("Sigmoid", "Tanh")
# ONNX's peepholes are i, o, f too.
_PEEPHOLES = (18, 20, 19)


@ONNX.importer("LSTM", versions=(7, 14, 22))
def lstm(op: OpContext) -> Sequence[Tensor | None]:
    """Lstm. Where ONNX couples the forget gate (1 - i), QNN couples the input gate (1 - f)."""
    return lstm_of(read_layer(op, 4))


def lstm_of(layer: Layer) -> Sequence[Tensor | None]:
    """Return the outputs Y, Y_h and Y_c of an LSTM that has been parsed."""
    op = layer.op
    if not _is_an_op(layer, LSTM_FUNCTIONS):
        return unrolled_lstm(layer, LSTM_FUNCTIONS)
    shape = (layer.batch, layer.hidden)
    parts = []
    for d, direction in enumerate(layer.directions):
        inputs = [op.tensor(0), *[None] * 21]
        for port, (name, values) in _lstm_weights(layer, d).items():
            inputs[port] = layer.static(d, name, values)
        inputs[10] = layer.state(5, "initial_h", d, shape)
        inputs[11] = layer.state(6, "initial_c", d, shape)
        found = op.step_all(
            layer.word(d),
            "Lstm",
            _trimmed(inputs),
            [""] * 3,
            direction=direction,
            time_major=layer.time_major,
        )
        parts.append(found)
    out, c, h = zip(*parts, strict=True)
    return [layer.sequence(0, out), layer.last(1, h), layer.last(2, c)]


def _lstm_weights(layer: Layer, d: int) -> dict[int, tuple[str, Array]]:
    """Return names and values of the weights of one direction by input of Lstm."""
    op, size = layer.op, layer.hidden
    weights, recurrent = (a[d].reshape(4, size, -1) for a in (layer.weights, layer.recurrent))
    bias = np.zeros((2, 4, size), weights.dtype)
    if layer.bias is not None:
        bias = layer.bias[d].reshape(2, 4, size)
    found = {}
    for gate, ports in enumerate(_LSTM_PORTS):
        values = (weights[gate], recurrent[gate], bias[0, gate] + bias[1, gate])
        for port, name, value in zip(ports, ("W", "R", "B"), values, strict=True):
            found[port] = f"{name}{'iofc'[gate]}", value
    if op.has(7):
        shape = (len(layer.directions), 3 * size)
        if op.spec(7).shape != shape:
            raise op.invalid(f"peepholes must have shape {shape}, got {op.spec(7).shape}")
        peepholes = op.need_constant(7, "peepholes P")[d].reshape(3, size)
        for gate, port in enumerate(_PEEPHOLES):
            found[port] = f"P{'iof'[gate]}", peepholes[gate]
    if op.attr.integer("input_forget", 0):
        # f = 1 - sigmoid(a) = sigmoid(-a), where a is what goes into i; then i = 1 - f
        for of_input, of_forget in ((16, 1), (17, 4), (21, 7), (18, 19)):
            if of_input in found:
                found[of_forget] = found[of_forget][0], -found.pop(of_input)[1]
    return found


@ONNX.importer("GRU", versions=(7, 14, 22))
def gru(op: OpContext) -> Sequence[Tensor | None]:
    """Gru: both have the gates z, r, h in this order."""
    layer = read_layer(op, 3)
    if not _is_an_op(layer, GRU_FUNCTIONS):
        return unrolled_gru(layer, GRU_FUNCTIONS)
    shape = (1, layer.batch, layer.hidden)
    linear = int(op.attr.integer("linear_before_reset", 0) != 0)
    parts = []
    for d, direction in enumerate(layer.directions):
        inputs: list[Tensor | None] = [op.tensor(0)]
        for name, array in (("W", layer.weights), ("R", layer.recurrent)):
            by_gate = array[d].reshape(3, layer.hidden, -1)
            inputs += [layer.static(d, f"{name}{g}", by_gate[i]) for i, g in enumerate("zrh")]
        if layer.bias is None:
            inputs += [None] * 6
        else:
            names = [f"{side}b{gate}" for side in "WR" for gate in "zrh"]
            biases = layer.bias[d].reshape(6, layer.hidden)
            inputs += [layer.static(d, n, b) for n, b in zip(names, biases, strict=True)]
        inputs.append(layer.state(5, "initial_h", d, shape))
        found = op.step_all(
            layer.word(d),
            "Gru",
            _trimmed(inputs),
            [""] * 2,
            direction=direction,
            time_major=layer.time_major,
            linear_before_reset=linear,
        )
        parts.append(found)
    out, h = zip(*parts, strict=True)
    return [layer.sequence(0, out), layer.last(1, h)]


def _is_an_op(layer: Layer, functions: Sequence[str]) -> bool:
    """Return whether an op has a layer's activations, and as many steps of all sequences."""
    return layer.lengths is None and has_functions(layer.op, functions, len(layer.directions))


def _trimmed(inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return the inputs without those left out at the end."""
    count = max(i for i, tensor in enumerate(inputs) if tensor is not None) + 1
    return inputs[:count]
