"""The simple recurrent layer, RNN: unrolled, with any of ONNX's activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._parts import apply_operator
from dovetail_onnx.operators._recurrence import Layer, read_layer
from dovetail_onnx.operators._table import ONNX

# RNN has no op: each step becomes some five nodes, which take as long to convert as the unrolled
# loops of `_reader.MAX_BODY_NODES`.
_MOST_STEPS = 2000
# ONNX's activations, and which of them take an alpha and a beta; without these the default of the
# operator of the same name holds.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Affine": ("alpha", "beta"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "ScaledTanh": ("alpha", "beta"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
_NAMES = {name.lower(): name for name in _PARAMETERS}


@dataclass(frozen=True, slots=True)
class _Activation:
    """The function of one direction: ONNX's operator and its attributes."""

    operator: str
    attributes: dict[str, Any]


def can_convert(function: str, steps: int) -> bool:
    """Return whether a layer with this function and number of steps can be converted."""
    return function in _PARAMETERS and 1 <= steps <= _MOST_STEPS


@ONNX.importer("RNN", versions=(7, 14, 22))
def rnn(op: OpContext) -> Sequence[Tensor | None]:
    """Unroll all steps: h = f(W x + R h + B), with the product of all x computed beforehand."""
    layer = read_layer(op, 1)
    functions = list(_activations(op, len(layer.directions)))
    steps = op.spec(0).shape[0 if layer.time_major else 1]
    if not 1 <= steps <= _MOST_STEPS:
        raise op.unsupported(
            f"{steps} steps; no op computes a plain recurrence, and only 1 to {_MOST_STEPS} "
            "steps are written out",
            hint="use LSTM or GRU",
        )
    found = [_direction(layer, d, steps, function) for d, function in enumerate(functions)]
    sequences, last = zip(*found, strict=True)
    return [layer.sequence(0, sequences), layer.last(1, last)]


def _activations(op: OpContext, count: int) -> Iterator[_Activation]:
    """Return the function of each direction.

    Those that take an alpha or a beta take the next number of the attribute of that name.

    Raises:
        FrontendError: There is another number of functions, or an unknown one.
    """
    names = op.attr.texts("activations") or ("Tanh",) * count
    if len(names) != count:
        raise op.invalid(f"{len(names)} activations, where {count} direction(s) take one each")
    numbers = {p: iter(op.attr.numbers(f"activation_{p}") or ()) for p in ("alpha", "beta")}
    for name in names:
        if name.lower() not in _NAMES:
            known = ", ".join(_PARAMETERS)
            raise op.invalid(f"unknown activation '{name}'; expected one of {known}")
        operator = _NAMES[name.lower()]
        given = {p: next(numbers[p], None) for p in _PARAMETERS[operator]}
        if operator == "ScaledTanh" and None in given.values():
            raise op.invalid("ScaledTanh needs activation_alpha and activation_beta")
        yield _Activation(operator, {p: v for p, v in given.items() if v is not None})


def _direction(layer: Layer, d: int, steps: int, function: _Activation) -> tuple[Tensor, Tensor]:
    """Return h after all steps of one direction, in order of time, and after the last one."""
    op, word, time = layer.op, layer.word(d), 0 if layer.time_major else 1
    bias = None
    if layer.bias is not None:
        bias = layer.static(d, "B", layer.bias[d].reshape(2, -1).sum(0))
    weights = layer.static(d, "W", layer.weights[d])
    recurrent = layer.static(d, "R", layer.recurrent[d])
    connected = [op.tensor(0), weights, bias]
    projected = op.step(f"{word}.inputs", "FullyConnected", connected, keep_dims=True)
    h = layer.state(5, "initial_h", d, (layer.batch, layer.hidden))
    order = range(steps - 1, -1, -1) if layer.directions[d] else range(steps)
    results: dict[int, Tensor] = {}
    for t in order:
        ranges = [(0, size, 1) for size in projected.shape]
        ranges[time] = (t, t + 1, 1)
        name = f"{word}.{t}"
        sums = op.step(
            f"{name}.x", "StridedSlice", [projected], ranges=ranges, shrink_axes=1 << time
        )
        if h is not None:
            product = op.step(f"{name}.h", "FullyConnected", [h, recurrent])
            sums = op.step(f"{name}.sum", "ElementWiseAdd", [sums, product])
        value = apply_operator(op, name, function.operator, [sums], **function.attributes)
        h = results[t] = op.as_tensor(value)
    shape = (1, layer.batch, layer.hidden) if time == 0 else (layer.batch, 1, layer.hidden)
    rows = [layer.reshaped(f"{word}.{t}.row", results[t], shape) for t in range(steps)]
    joined = rows[0] if steps == 1 else op.step(f"{word}.rows", "Concat", rows, axis=time)
    return joined, results[order[-1]]
