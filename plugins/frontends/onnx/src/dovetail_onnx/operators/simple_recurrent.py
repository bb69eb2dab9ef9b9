"""The simple recurrent layer, RNN: unrolled, with any of ONNX's activations."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._recurrence import Layer, read_layer
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._unrolled import (
    Activation,
    States,
    check_steps,
    is_activation,
    most_steps,
    read_activations,
    write_out,
)

_NODES = 5  # of a step


def can_convert(function: str, steps: int) -> bool:
    """Return whether a layer with this function and number of steps can be converted."""
    return is_activation(function) and 1 <= steps <= most_steps(_NODES)


@ONNX.importer("RNN", versions=(7, 14, 22))
def rnn(op: OpContext) -> Sequence[Tensor | None]:
    """Unroll all steps: h = f(W x + R h + B), with the product of all x computed beforehand."""
    layer = read_layer(op, 1)
    functions = read_activations(op, ("Tanh",), len(layer.directions))
    check_steps(layer, _NODES, "no op computes a plain recurrence")
    found = [_direction(layer, d, function) for d, (function,) in enumerate(functions)]
    sequences, last = zip(*found, strict=True)
    return [layer.sequence(0, sequences), layer.last(1, last)]


def _direction(layer: Layer, d: int, function: Activation) -> tuple[Tensor, ...]:
    op = layer.op
    recurrent = layer.static(d, "R", layer.recurrent[d])
    bias = None if layer.bias is None else layer.bias[d].reshape(2, -1).sum(0)

    def cell(name: str, sums: Tensor, states: States) -> tuple[Tensor]:
        (h,) = states
        if h is not None:
            product = op.step(f"{name}.h", "FullyConnected", [h, recurrent])
            sums = op.step(f"{name}.sum", "ElementWiseAdd", [sums, product])
        return (function(name, sums),)

    h = layer.state(5, "initial_h", d, (layer.batch, layer.hidden))
    return write_out(layer, d, bias, (h,), cell)
