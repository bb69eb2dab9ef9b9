"""Recurrent layers on integers: products, tables of sigmoid and tanh, and grids in between.

- The sum in a gate is rounded once, to int16 in steps of 2**-12: products with x, the bias,
  products with h, and the peephole are added in float32 in this order, as passes of a product are.
- Sigmoid and tanh of it are tables of integers over 2**15.
- c and h are on the grids of `out[1]` and `out[0]`, also between the steps.
- The rest are sums of two products of such integers, in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.faults import Fault, constant
from dovetail_numpy.integer.functions import sigmoid, tanh
from dovetail_numpy.integer.gates import (
    ARGUMENT,
    ONE,
    UNIT,
    Matrix,
    Sums,
    add_up,
    clipped,
    requantized,
    rounded,
    unit,
)
from dovetail_numpy.integer.grid import is_fixed, is_tabular, real_of, stored_of
from dovetail_numpy.integer.norms import moments, single
from dovetail_numpy.integer.products import byte_shifts, overflow_faults, part, sum_bound
from dovetail_numpy.integer.rescaling import grid_of, real_bias, scales
from dovetail_opset.lstm_ports import (
    BIASES,
    CELL,
    FORGET,
    INPUT,
    MATRICES,
    OUTPUT,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    STATES,
    Gate,
    gates_of,
)
from dovetail_opset.recurrent_weights import given

LAYERS = ("Lstm", "Gru")
_SCALES = (2.0**-32, 2.0**16)
EPSILON = 1e-8  # added to the variance of a gate

_GATES = {INPUT: "input", FORGET: "forget", CELL: "cell", OUTPUT: "output"}


def _of_layer(view: NodeView, required: Sequence[int], optional: Sequence[int]) -> bool:
    """Return whether tensors of a layer have grids: data and results one scale, weights some."""
    grids = [view.ins[0], *view.outs[: 3 if view.op_type == "Lstm" else 2]]
    if any(s is None or not is_tabular(s) or not _is_usable(scales(s)) for s in grids):
        return False
    for i, spec in enumerate(view.ins):
        if spec is None or spec.dtype is DType.BOOL_8:
            continue
        if i in required and not _is_matrix(spec):
            return False
        if i in optional and spec.encoding is not None and not is_fixed(spec):
            return False
        if i not in (*required, *optional) and not is_tabular(spec):
            return False
        if i not in optional and not _is_usable(scales(spec)):
            return False
    return all(s.dtype.is_float or is_fixed(s) for s in view.outs)


def _is_usable(found: Array) -> bool:
    """Return whether scales are above 0, and such that no product of them leaves float32."""
    return bool((found >= _SCALES[0]).all() and (found <= _SCALES[1]).all())


def _is_matrix(spec: Spec) -> bool:
    """Return whether weights have up to 16 bits, and one scale or one for each row."""
    if not spec.dtype.is_fixed_point or spec.dtype.bits > 16:
        return False
    encoding = spec.encoding
    return isinstance(encoding, ScaleOffset) or (
        isinstance(encoding, AxisScaleOffset) and encoding.axis == 0
    )


def _is_lstm(view: NodeView) -> bool:
    op = view.op
    steps = [getattr(op, f"{name}_gate_qscale") for name in _GATES.values()]
    is_whole = float(op.hidden_state_offset).is_integer() and abs(op.hidden_state_offset) < ONE * 2
    return (
        is_whole
        and all(s == 0 or _is_usable(np.asarray(s)) for s in (*steps, op.hidden_state_qscale))
        and _of_layer(view, MATRICES, BIASES)
    )


def _is_gru(view: NodeView) -> bool:
    return _of_layer(view, range(1, 7), range(7, 13))


def layer_faults(view: NodeView) -> Iterator[Fault]:
    """Yield the matrices of a layer whose sums may overflow."""
    if DEFINITIONS.of(view) is None:
        return
    of_x, of_h = [1, 2, 3], [4, 5, 6]
    if view.op_type == "Lstm":
        of_x.append(INPUT.weights)
        of_h += INPUT.recurrent, PROJECTION
    for ports, vectors in ((of_x, view.ins[0]), (of_h, view.outs[0])):
        for port in ports:
            weights = view.ins[port] if port < len(view.ins) else None
            if weights is None or vectors is None:
                continue
            stored = constant(view.node.inputs[port])
            bound = sum_bound(vectors, weights, stored, weights.shape[1], _row_sums)
            yield from overflow_faults(f"in[{port}]", bound)


def _row_sums(matrix: Array) -> Array:
    return np.asarray(matrix.sum(axis=1))


class LstmLayer(Protocol):
    """The weights of an Lstm, and one step."""

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array, list[Array]]:
        """Return h and c, stored, and the gates i, f, the cell's tanh and o, over 2**15."""


@DEFINITIONS.prepares("Lstm", supports=_is_lstm)
def lstm(view: NodeView) -> Run:
    """Run the steps of a layer; with the input `reset`, it keeps its state between runs."""
    return prepare_lstm(view, _Lstm)


def prepare_lstm(
    view: NodeView, make: Callable[[NodeView, Sequence[Array | None]], LstmLayer]
) -> Run:
    """Return the function of a node whose layer is made from the node and all inputs."""
    left: list[tuple[Array, ...]] = []

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        ins = [*ins, *[None] * (RESET + 1 - len(ins))]
        layer = make(view, ins)
        h, c = start_of(view, ins, STATES, RESET, left)
        result = np.empty(view.outs[0].shape, view.outs[0].dtype.storage)
        gates = [np.zeros(c.shape, np.int64)] * 4
        for x, position in zip(
            view.op.in_order(given(ins[0])), view.op.in_order(result), strict=True
        ):
            h, c, gates = layer.step(x, h, c)
            position[...] = h
        if ins[RESET] is not None:
            left[:] = [(h, c)]
        last = [stored_of(g * UNIT, s) for g, s in zip(gates, view.outs[3:7], strict=False)]
        ends = [requantized(h, view.outs[0], s) for s in (*view.outs[2:3], *view.outs[7:8])]
        return [result, c, ends[0], *last, *ends[1:]]

    return run


class _Lstm:
    """The weights of a layer, and one step."""

    def __init__(self, view: NodeView, ins: Sequence[Array | None]) -> None:
        self.ins = ins
        self._view, self._op = view, view.op
        self._gates = gates_of(ins)
        self._x = {g: self._matrix(g.weights, view.spec(0), self._sum(g)) for g in self._gates}
        self._h = {g: self._matrix(g.recurrent, view.outs[0], self._sum(g)) for g in self._gates}
        self._hidden, self._projection = view.outs[0], None
        if ins[PROJECTION] is not None:
            self._hidden = hidden_of(view)
            self._projection = self._matrix(PROJECTION, self._hidden, view.outs[0])

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array, list[Array]]:
        """Return h and c, stored, and the gates i, f, the cell's tanh and o, over 2**15."""
        cell, early = self._view.outs[1], [g for g in self._gates if g in (INPUT, FORGET)]
        opened = {g: unit(sigmoid, self._argument(g, x, h, c), ARGUMENT) for g in early}
        forget = opened[FORGET]
        taken = opened.get(INPUT, ONE - forget)
        new = unit(tanh, self._argument(CELL, x, h, c), ARGUMENT)
        step, zero, _ = grid_of(cell)
        levels = c.astype(np.int64) - zero
        c = rounded((forget * levels) * UNIT + (taken * new) * (UNIT * UNIT / step), cell)
        c = clipped(c, cell, self._op.cell_clip_threshold)
        out = unit(sigmoid, self._argument(OUTPUT, x, h, c), ARGUMENT)
        return self._result(out * unit(tanh, c, cell)), c, [taken, forget, new, out]

    def _result(self, products: Array) -> Array:
        """Return h from o * tanh(c), over 2**30."""
        target = self._view.outs[0]
        hidden = rounded(products * (UNIT * UNIT / grid_of(self._hidden)[0]), self._hidden)
        if self._projection is None:
            return hidden
        bias = self._bias(PROJECTION_BIAS, self._projection.products)
        found = add_up(self._projection.sums(hidden), bias, target)
        return clipped(found, target, self._op.output_clip_threshold)

    def _argument(self, gate: Gate, x: Array, h: Array, c: Array) -> Array:
        """Return the argument of a gate's function, on the grid of `ARGUMENT`."""
        has_norm = self.ins[gate.norm] is not None
        target, matrix = self._sum(gate), self._x[gate]
        bias = 0.0 if has_norm else self._bias(gate.bias, matrix.products)
        sums = matrix.sums(x) + self._h[gate].sums(h)
        peephole = None if gate.peephole is None else self.ins[gate.peephole]
        if peephole is not None and gate.peephole is not None:
            sums += self._peephole(peephole, self._view.spec(gate.peephole), c, target)
        found = add_up(sums, bias, target)
        if not has_norm:
            return found
        centered, variance = moments(found.astype(np.int64), (-1,))
        step = grid_of(target)[0]
        real = centered / np.sqrt(variance + EPSILON / (step * step))
        real = real * real_of(given(self.ins[gate.norm]), self._view.spec(gate.norm))
        return stored_of(real + self._bias(gate.bias, np.ones(())), ARGUMENT)

    def _peephole(self, stored: Array, spec: Spec, c: Array, target: Spec) -> Sums:
        cell = self._view.outs[1]
        m = np.asarray(scales(spec) * scales(cell) / grid_of(target)[0], np.float32)
        return [
            (
                part(stored, spec, wide) * part(c, cell, narrow),
                np.asarray(m * np.float32(2 ** (wide + narrow))),
            )
            for wide, narrow in itertools.product(byte_shifts(spec), byte_shifts(cell))
        ]

    def _sum(self, gate: Gate) -> Spec:
        return sum_of(self._view, gate, has_norm=self.ins[gate.norm] is not None)

    def _matrix(self, port: int, vectors: Spec, target: Spec) -> Matrix:
        return Matrix(vectors, given(self.ins[port]), self._view.spec(port), target)

    def _bias(self, port: int, products: Array) -> Array | float:
        stored = self.ins[port]
        return 0.0 if stored is None else real_bias(stored, self._view.spec(port), products)


def sum_of(view: NodeView, gate: Gate, *, has_norm: bool) -> Spec:
    """Return the grid of a gate's sum in an Lstm: with a norm, the one that the params give."""
    step = single(getattr(view.op, f"{_GATES[gate]}_gate_qscale"))
    if not has_norm or step <= 0:
        return ARGUMENT
    return replace(ARGUMENT, encoding=ScaleOffset(step))


def hidden_of(view: NodeView) -> Spec:
    """Return the grid of h before the projection, which the params of an Lstm give."""
    op = view.op
    step = single(op.hidden_state_qscale)
    if step <= 0:
        return replace(ARGUMENT, encoding=ScaleOffset(UNIT))
    return replace(view.outs[0], encoding=ScaleOffset(step, int(op.hidden_state_offset)))


@DEFINITIONS.prepares("Gru", supports=_is_gru)
def gru(view: NodeView) -> Run:
    """Run the steps of a layer; with the input `reset`, it keeps its state between runs."""
    left: list[tuple[Array, ...]] = []

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        ins = [*ins, *[None] * (15 - len(ins))]
        (h,) = start_of(view, ins, (13,), 14, left)
        result = np.empty(view.outs[0].shape, view.outs[0].dtype.storage)
        layer = _Gru(view, ins)
        for x, position in zip(
            view.op.in_order(given(ins[0])), view.op.in_order(result), strict=True
        ):
            h = layer.step(x, h)
            position[...] = h
        if ins[14] is not None:
            left[:] = [(h,)]
        return [result, requantized(h[None], view.outs[0], view.outs[1])]

    return run


class _Gru:
    """The weights of a layer, and one step."""

    def __init__(self, view: NodeView, ins: Sequence[Array | None]) -> None:
        self._view = view
        self._state = view.outs[0]
        self._x = list(self._matrices(ins, 1, view.spec(0)))
        self._h = list(self._matrices(ins, 4, view.outs[0]))
        self._of_x = list(self._biases(ins, 7, self._x))
        self._of_h = list(self._biases(ins, 10, self._h))

    def step(self, x: Array, h: Array) -> Array:
        """Return h, stored."""
        update, reset = (
            unit(sigmoid, self._argument(i, x, self._h[i].sums(h), self._of_h[i]), ARGUMENT)
            for i in (0, 1)
        )
        step, zero, _ = grid_of(self._state)
        levels = h.astype(np.int64) - zero
        if self._view.op.linear_before_reset:
            hidden = add_up(self._h[2].sums(h), self._of_h[2], ARGUMENT).astype(np.int64)
            gated: Sums = [((reset * hidden).astype(np.float64), np.asarray(UNIT, np.float32))]
            argument = self._argument(2, x, gated, 0.0)
        else:
            opened = rounded((reset * levels) * UNIT, self._state)
            argument = self._argument(2, x, self._h[2].sums(opened), self._of_h[2])
        new = unit(tanh, argument, ARGUMENT)
        kept = (update * levels) * UNIT
        return rounded(((ONE - update) * new) * (UNIT * UNIT / step) + kept, self._state)

    def _argument(self, i: int, x: Array, others: Sums, bias: Array | float) -> Array:
        return add_up(self._x[i].sums(x) + others, self._of_x[i] + bias, ARGUMENT)

    def _matrices(self, ins: Sequence[Array | None], first: int, vectors: Spec) -> Iterator[Matrix]:
        for port in range(first, first + 3):
            yield Matrix(vectors, given(ins[port]), self._view.spec(port), ARGUMENT)

    def _biases(
        self, ins: Sequence[Array | None], first: int, matrices: list[Matrix]
    ) -> Iterator[Array | float]:
        for port, matrix in zip(range(first, first + 3), matrices, strict=True):
            stored = ins[port]
            spec = self._view.ins[port] if port < len(self._view.ins) else None
            yield 0.0 if stored is None else real_bias(stored, spec, matrix.products)


def start_of(
    view: NodeView,
    ins: Sequence[Array | None],
    ports: Sequence[int],
    reset: int,
    left: list[tuple[Array, ...]],
) -> tuple[Array, ...]:
    """Return the states before the first step, on the grids of the first outputs."""
    switch = ins[reset]
    if switch is not None and not switch and left:
        return left[0]
    ends = view.outs[1:] if view.op_type == "Gru" else (view.outs[2], view.outs[1])
    found = []
    for port, target, end in zip(ports, view.outs, ends, strict=False):
        stored, spec = ins[port], view.ins[port] if port < len(view.ins) else None
        shape = end.shape[-2:]
        if stored is None or spec is None:
            found.append(np.full(shape, grid_of(target)[1], target.dtype.storage))
        else:
            found.append(requantized(stored.reshape(shape), spec, target))
    return tuple(found)
