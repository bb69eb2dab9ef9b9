"""Recurrent layers, whose weights in ONNX are one tensor for all gates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from dovetail.ir import DType, Shape
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_opset.ops.recurrent import Direction

# Where Lstm has the weights of x, of h and the bias of ONNX's gates, which are i, o, f, c.
_WEIGHTS, _RECURRENT, _BIASES = (16, 3, 1, 2), (17, 6, 4, 5), (21, 9, 7, 8)
_FLOATS: dict[int, np.dtype[np.generic]] = {
    code: dtype.storage
    for code, dtype in (
        (TensorProto.FLOAT, DType.FLOAT_32),
        (TensorProto.DOUBLE, DType.FLOAT_64),
        (TensorProto.FLOAT16, DType.FLOAT_16),
    )
}
# ONNX's peepholes are i, o, f.
_PEEPHOLES = (18, 20, 19)


@exports("Lstm")
def lstm(e: NodeExport) -> None:
    """LSTM; if the input gate is 1 - f in QNN, the forget gate is 1 - i in ONNX."""
    _check_lstm(e)
    units, size = e.spec(1).shape[0], e.spec(0).shape[-1]
    x, batch = _sequence(e)
    bias = _lstm_gates(e, _BIASES, (1, units))
    zeros = e.constant(np.zeros((1, 4 * units)), x)
    inputs = [
        x,
        _lstm_gates(e, _WEIGHTS, (1, units, size)),
        _lstm_gates(e, _RECURRENT, (1, units, units)),
        joined(e, [bias, zeros]),
        "",
        *(e.flat(i, (1, batch, units)) if e.has(i) else "" for i in (10, 11)),
        _lstm_gates(e, _PEEPHOLES, (1, units)) if e.has(19) else "",
    ]
    found = e.add_all(
        "LSTM",
        inputs,
        [None, None, None],
        hidden_size=units,
        direction=_direction(e),
        input_forget=None if e.has(16) else 1,
    )
    _put_sequence(e, found[0])
    e.put(e.reshape(found[2], (batch, units)), i=1)
    for i in (2, 7):
        if i < len(e.node.outputs):
            e.put(e.reshape(found[1], (batch, units)), i=i)


@exports("Gru")
def gru(e: NodeExport) -> None:
    """GRU: both have the gates z, r, h in this order."""
    if e.has(14):
        raise e.unsupported("the state is kept between runs, which ONNX cannot express")
    x, _ = _sequence(e)
    units, size = e.spec(1).shape[0], e.spec(0).shape[-1]
    zeros = e.constant(np.zeros((1, units)), x)
    biases = [e.flat(i, (1, units)) if e.has(i) else zeros for i in range(7, 13)]
    inputs = [
        x,
        joined(e, [e.flat(i, (1, units, size)) for i in (1, 2, 3)]),
        joined(e, [e.flat(i, (1, units, units)) for i in (4, 5, 6)]),
        joined(e, biases),
        "",
        e.optional(13),
    ]
    found = e.add_all(
        "GRU",
        inputs,
        [None, None],
        hidden_size=units,
        direction=_direction(e),
        linear_before_reset=int(e.op.linear_before_reset != 0),
    )
    _put_sequence(e, found[0])
    e.put(found[1], i=1)


def _check_lstm(e: NodeExport) -> None:
    for inputs, text in (
        (range(12, 16), "normalized gates"),
        ((22, 23), "a projection of the output"),
        ((24,), "a state kept between runs"),
    ):
        if any(e.has(i) for i in inputs):
            raise e.unsupported(f"ONNX's LSTM does not support {text}")
    if e.op.cell_clip_threshold:
        raise e.unsupported("the cell is clipped; ONNX's LSTM clips the inputs of the activations")
    graph = e.values.graph
    for i, tensor in enumerate(e.node.outputs[3:7], 3):
        if graph.is_output(tensor) or graph.consumers(tensor):
            raise e.unsupported(f"out[{i}] is a gate, which ONNX's LSTM does not return")
        e.values.forget(tensor)


def _lstm_gates(e: NodeExport, ports: Sequence[int], shape: Shape) -> str:
    """Return the tensors of the gates i, o, f and (except for peepholes) c as one tensor."""
    found = [e.flat(i, shape) if e.has(i) else "" for i in ports]
    if not found[0]:  # i = 1 - f = sigmoid(-a), where a is what goes into f
        found[0] = e.add("Neg", [found[2]])
    return joined(e, found)


def joined(e: NodeExport, values: Sequence[str]) -> str:
    """Return values side by side along axis 1; constants as one constant."""
    known = [e.builder.constants.get(value) for value in values]
    made = [each for each in known if each is not None and each.element_type in _FLOATS]
    if len(made) < len(values):
        return e.add("Concat", values, axis=1)
    arrays = [each.data.view(_FLOATS[each.element_type]).reshape(each.shape) for each in made]
    return e.constant(np.concatenate(arrays, axis=1), values[0])


def _sequence(e: NodeExport) -> tuple[str, int]:
    """Return the input as (time, batch, k), and the batch."""
    shape = e.spec(0).shape
    if len(shape) == 2:
        return e.flat(0, (1, *shape)), shape[0]
    if e.op.time_major:
        return e.input(0), shape[1]
    return e.input(0, (1, 0, 2)), shape[0]


def _put_sequence(e: NodeExport, y: str) -> None:
    """Make (time, 1, batch, units) the first output."""
    shape = e.out.shape
    if len(shape) == 2 or e.op.time_major:
        e.put(e.reshape(y, shape))
    else:
        batch, time, units = shape
        e.put(e.reshape(y, (time, batch, units)), (1, 0, 2))


def _direction(e: NodeExport) -> str:
    return "reverse" if e.op.direction is Direction.REVERSE else "forward"
