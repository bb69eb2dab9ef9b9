"""LSTM and GRU with other activations than the ops have, written out step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail_onnx.operators._recurrence import Layer
from dovetail_onnx.operators._unrolled import (
    Activation,
    States,
    check_steps,
    read_activations,
    write_out,
)

_LSTM_NODES, _GRU_NODES = 20, 18  # of a step, at most
_WHY = "the op has other activations"


def unrolled_lstm(layer: Layer, defaults: Sequence[str]) -> Sequence[Tensor | None]:
    """Return the outputs Y, Y_h and Y_c of an LSTM."""
    functions = read_activations(layer.op, defaults, len(layer.directions))
    check_steps(layer, _LSTM_NODES, _WHY)
    found = [_lstm_direction(layer, d, *each) for d, each in enumerate(functions)]
    out, h, c = zip(*found, strict=True)
    return [layer.sequence(0, out), layer.last(1, h), layer.last(2, c)]


def unrolled_gru(layer: Layer, defaults: Sequence[str]) -> Sequence[Tensor | None]:
    """Return the outputs Y and Y_h of a GRU."""
    functions = read_activations(layer.op, defaults, len(layer.directions))
    check_steps(layer, _GRU_NODES, _WHY)
    found = [_gru_direction(layer, d, *each) for d, each in enumerate(functions)]
    out, h = zip(*found, strict=True)
    return [layer.sequence(0, out), layer.last(1, h)]


def _lstm_direction(
    layer: Layer, d: int, of_gates: Activation, of_input: Activation, of_output: Activation
) -> tuple[Tensor, ...]:
    op, steps = layer.op, _Arithmetic(layer)
    recurrent = layer.static(d, "R", layer.recurrent[d])
    bias = None if layer.bias is None else layer.bias[d].reshape(2, -1).sum(0)
    peepholes: list[Tensor | None] = [None] * 3
    if op.has(7):
        shape = (len(layer.directions), 3 * layer.hidden)
        if op.spec(7).shape != shape:
            raise op.invalid(f"peepholes must have shape {shape}, got {op.spec(7).shape}")
        values = op.need_constant(7, "peepholes P")[d].reshape(3, layer.hidden)
        peepholes = [layer.static(d, f"P{g}", p) for g, p in zip("iof", values, strict=True)]
    couples = bool(op.attr.integer("input_forget", 0))
    one = layer.static(d, "one", np.ones(())) if couples else None

    def gate(name: str, sums: Tensor, c: Tensor | None, peephole: Tensor | None) -> Tensor:
        if peephole is not None and c is not None:
            part = steps.product(f"{name}.peephole", c, peephole)
            sums = steps.total(f"{name}.sum", sums, part)
        return of_gates(name, sums)

    def cell(name: str, sums: Tensor, states: States) -> tuple[Tensor, Tensor]:
        h, c = states
        sums = steps.with_product(name, sums, h, recurrent)
        i, o, f, g = steps.pieces(name, sums, 4)
        i = gate(f"{name}.i", i, c, peepholes[0])
        new = steps.product(f"{name}.new", i, of_input(f"{name}.g", g))
        if c is not None:
            if one is not None:
                f = op.step(f"{name}.f", "ElementWiseSubtract", [one, i])
            else:
                f = gate(f"{name}.f", f, c, peepholes[2])
            new = steps.total(f"{name}.c", steps.product(f"{name}.kept", f, c), new)
        o = gate(f"{name}.o", o, new, peepholes[1])
        return steps.product(f"{name}.h", o, of_output(f"{name}.out", new)), new

    shape = (layer.batch, layer.hidden)
    states = (layer.state(5, "initial_h", d, shape), layer.state(6, "initial_c", d, shape))
    return write_out(layer, d, bias, states, cell)


def _gru_direction(
    layer: Layer, d: int, of_gates: Activation, of_state: Activation
) -> tuple[Tensor, ...]:
    op, steps, size = layer.op, _Arithmetic(layer), layer.hidden
    resets_product = bool(op.attr.integer("linear_before_reset", 0))
    recurrent = layer.recurrent[d].reshape(3, size, size)
    gates = layer.static(d, "Rzr", recurrent[:2].reshape(2 * size, size))
    state = layer.static(d, "Rh", recurrent[2])
    bias, state_bias = _gru_biases(layer, d, resets_product)
    one = layer.static(d, "one", np.ones(()))

    def candidate(name: str, r: Tensor, h: Tensor | None) -> Tensor | None:
        if resets_product:
            made = state_bias
            if h is not None:
                made = op.step(f"{name}.hh", "FullyConnected", [h, state, state_bias])
            return None if made is None else steps.product(f"{name}.reset", r, made)
        if h is None:
            return None
        kept = steps.product(f"{name}.reset", r, h)
        return op.step(f"{name}.hh", "FullyConnected", [kept, state])

    def cell(name: str, sums: Tensor, states: States) -> tuple[Tensor]:
        (h,) = states
        z, r, x = steps.pieces(name, sums, 3)
        if h is not None:
            both = op.step(f"{name}.zr", "FullyConnected", [h, gates])
            of_z, of_r = steps.pieces(f"{name}.zr", both, 2)
            z, r = steps.total(f"{name}.zsum", z, of_z), steps.total(f"{name}.rsum", r, of_r)
        z = of_gates(f"{name}.z", z)
        part = candidate(name, of_gates(f"{name}.r", r), h)
        if part is not None:
            x = steps.total(f"{name}.xsum", x, part)
        rest = op.step(f"{name}.rest", "ElementWiseSubtract", [one, z])
        new = steps.product(f"{name}.new", rest, of_state(f"{name}.g", x))
        if h is not None:
            new = steps.total(f"{name}.next", new, steps.product(f"{name}.kept", z, h))
        return (new,)

    h = layer.state(5, "initial_h", d, (layer.batch, size))
    return write_out(layer, d, bias, (h,), cell)


def _gru_biases(layer: Layer, d: int, apart: bool) -> tuple[Array | None, Tensor | None]:
    """Return the bias of the product of x, and that of the state's product if it is apart."""
    if layer.bias is None:
        return None, None
    of_x, of_h = layer.bias[d].reshape(2, 3, layer.hidden)
    if not apart:
        return (of_x + of_h).reshape(-1), None
    before = np.stack([of_h[0], of_h[1], np.zeros_like(of_h[2])])
    return (of_x + before).reshape(-1), layer.static(d, "Rbh", of_h[2])


class _Arithmetic:
    """Adds the nodes that both layers have in a step."""

    def __init__(self, layer: Layer) -> None:
        self._op, self._size = layer.op, layer.hidden

    def product(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        return self._op.step(name, "ElementWiseMultiply", [a, b])

    def total(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        return self._op.step(name, "ElementWiseAdd", [a, b])

    def with_product(self, name: str, sums: Tensor, h: Tensor | None, weights: Tensor) -> Tensor:
        """Return sums plus the product of the state, if it is not 0."""
        if h is None:
            return sums
        product = self._op.step(f"{name}.product", "FullyConnected", [h, weights])
        return self.total(f"{name}.sums", sums, product)

    def pieces(self, name: str, sums: Tensor, count: int) -> Sequence[Tensor]:
        """Return the sums of each gate, (batch, hidden)."""
        cuts = [self._size * i for i in range(1, count)]
        return self._op.step_all(
            f"{name}.gates", "Split", [sums], [""] * count, axis=1, split_index=cuts
        )
