"""Recurrent layers as products: the rows that the weights of their gates are multiplied with.

What goes into a gate is a sum over the step's input and over the state that the step before left.
Both are known for every step once the layer has run, so the weights of both are the columns of one
product, and gates that read the same are columns side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Node
from dovetail.ops import OpRegistry, bind_node
from dovetail.quantization import WeightedNode
from dovetail_opset.ops.activation import sigmoid
from dovetail_opset.ops.recurrent import Gru, Lstm

Floats = NDArray[np.float32]
Ports = tuple[int, ...]
# Static inputs by number, in one of the two networks.
Statics = Mapping[int, Floats]

RECURRENT = ("Lstm", "Gru")
# The state before the first step, and the flag of what goes on where the last call stopped.
_LSTM_STATE, _LSTM_FLAG = 10, 24
_GRU_STATE, _GRU_FLAG = 13, 14


@dataclass(frozen=True, slots=True)
class Gates:
    """Gates that read the same rows.

    Attributes:
        inputs: The weights of the step's input, a port for each gate; none if they read none.
        states: The weights of the state, likewise.
        biases: What is added to each gate, ports of vectors.
        is_reset: Whether the state is multiplied by the reset gate before (Gru).
    """

    inputs: Ports
    states: Ports
    biases: tuple[Ports, ...]
    is_reset: bool = False

    @property
    def weights(self) -> Ports:
        """All weights."""
        return (*self.inputs, *self.states)

    def columns(self, values: Mapping[int, Array]) -> Array:
        """Return anything of the weights' shapes as (1, k, gates * units)."""
        parts = [np.concatenate([values[i] for i in ports]).T for ports in self._kinds]
        return np.ascontiguousarray(np.concatenate(parts)[None])

    def split(self, columns: Array, values: Mapping[int, Array]) -> dict[int, Array]:
        """Return columns in the weights' shapes: the way back."""
        found: dict[int, Array] = {}
        first = 0
        for ports in self._kinds:
            read = values[ports[0]].shape[1]
            each = np.split(columns[0, first : first + read].T, len(ports))
            found |= dict(zip(ports, each, strict=True))
            first += read
        return found

    def bias(self, statics: Statics) -> Floats:
        """Return what is added to the product, (1, 1, gates * units)."""
        units = len(statics[self.weights[0]])
        zero = np.zeros(units, np.float32)
        sums = [sum((statics[i] for i in ports if i in statics), zero) for ports in self.biases]
        return np.concatenate(sums)[None, None]

    @property
    def _kinds(self) -> list[Ports]:
        return [ports for ports in (self.inputs, self.states) if ports]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A recurrent layer whose gates are products of what both networks show.

    Attributes:
        op: It.
        gates: All gates, those that read the same together.
        state: Number of the input that is the state before the first step.
    """

    op: Lstm | Gru
    gates: tuple[Gates, ...]
    state: int

    @property
    def weights(self) -> Ports:
        """All weights of gates."""
        return tuple(i for gates in self.gates for i in gates.weights)

    @property
    def biases(self) -> Ports:
        """All biases of gates, left-out ones among them."""
        return tuple(i for gates in self.gates for ports in gates.biases for i in ports)

    def rows(
        self, gates: Gates, x: Floats, states: Floats, start: Floats | None, statics: Statics
    ) -> Floats:
        """Return what some gates' weights are multiplied with, (steps * batch, k).

        Args:
            gates: Some gates.
            x: The layer's input, as it is declared.
            states: Its first output: the states that the steps leave.
            start: The state before the first step, None for zeros.
            statics: Weights and biases of the float network.
        """
        left = self.op.in_order(states)
        first = np.zeros_like(left[:1]) if start is None else start.reshape(left[:1].shape)
        before = np.concatenate([first, left[:-1]]) if len(left) else left
        flat = before.reshape(-1, before.shape[-1])
        steps = self.op.in_order(x)
        taken = steps.reshape(-1, steps.shape[-1])
        if gates.is_reset:
            flat = flat * _reset(taken, flat, statics)
        parts = [taken] * bool(gates.inputs) + [flat] * bool(gates.states)
        return np.concatenate(parts, axis=1)


def recurrence_of(node: Node, ops: OpRegistry) -> Recurrence | None:
    """Return how a node's gates are products; None if it is no recurrent layer, or keeps states.

    What a call finds that another call left is not among what the networks show.
    """
    op = bind_node(ops.find(node.package, node.op_type), node)
    ports = {i for i, tensor in enumerate(node.inputs) if tensor is not None}
    if isinstance(op, Lstm) and _LSTM_FLAG not in ports:
        return Recurrence(op, (_lstm(ports),), _LSTM_STATE)
    if isinstance(op, Gru) and _GRU_FLAG not in ports:
        return Recurrence(op, _gru(linear=bool(op.linear_before_reset)), _GRU_STATE)
    return None


def rows_of_gates(
    each: WeightedNode, recurrence: Recurrence, gates: Gates, *, exact: bool
) -> Iterator[Floats]:
    """Return what some gates' weights are multiplied with in one of the networks, sample by sample.

    Each is (steps * batch, k). States are always those of the float network: what the other one's
    own are off by comes from the very weights that are to be learned, and will be gone with it.
    """
    statics = statics_of(each, recurrence, exact=True)
    flowing = each.float_inputs if exact else each.quantized_inputs
    starts = each.float_inputs.get(recurrence.state)
    given = starts or itertools.repeat(statics.get(recurrence.state), len(each.float_outputs))
    for x, states, start in zip(flowing[0], each.float_outputs, given, strict=True):
        yield recurrence.rows(gates, x, states, start, statics)


def statics_of(each: WeightedNode, recurrence: Recurrence, *, exact: bool) -> dict[int, Floats]:
    """Return the weights and biases of a layer's gates, of the float network or of the other."""
    read = each.float_static if exact else each.quantized_static
    found = {i: read(i) for i in (*recurrence.weights, *recurrence.biases, recurrence.state)}
    return {i: values for i, values in found.items() if values is not None}


def _lstm(ports: set[int]) -> Gates:
    """All gates of an Lstm; a norm takes the place of the bias, and comes after the product."""
    gates = ((16, 17, 21), (1, 4, 7), (2, 5, 8), (3, 6, 9))[0 if 16 in ports else 1 :]
    normed = 13 in ports
    return Gates(
        tuple(of_x for of_x, _, _ in gates),
        tuple(of_h for _, of_h, _ in gates),
        tuple(() if normed else (bias,) for _, _, bias in gates),
    )


def _gru(*, linear: bool) -> tuple[Gates, ...]:
    """The gates z and r of a Gru; then n, whose state the reset gate multiplies first or last."""
    opened = Gates((1, 2), (4, 5), ((7, 10), (8, 11)))
    if linear:
        return opened, Gates((3,), (), ((9,),)), Gates((), (6,), ((12,),))
    return opened, Gates((3,), (6,), ((9, 12),), is_reset=True)


def _reset(x: Floats, states: Floats, statics: Statics) -> Floats:
    sums = x @ statics[2].T + states @ statics[5].T
    for i in (8, 11):
        if i in statics:
            sums = sums + statics[i]
    return np.asarray(sigmoid(sums), np.float32)
