"""Layers as matrix products: the rows of data that the weights multiply.

A layer has a row for each output position. In a recurrent layer, the input of a gate is a sum over
the step's input and over the state of the step before. Both are known for every step after the
layer has run, so the weights of both are the columns of one product, and gates with the same inputs
are adjacent columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Node, Shape
from dovetail.ops import OpRegistry, bind_node
from dovetail.quantization import WeightedNode
from dovetail_opset.ops.activation import sigmoid
from dovetail_opset.ops.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    DepthWiseConv1d,
    DepthWiseConv2d,
)
from dovetail_opset.ops.matrix import FullyConnected, MatMul
from dovetail_opset.ops.recurrent import Gru, Lstm
from dovetail_opset.ops.transposed import TransposeConv1d, TransposeConv2d, TransposeConv3d

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]
Ports = tuple[int, ...]
# Static inputs by number, in one of the two networks.
Statics = Mapping[int, Floats]

_TRANSPOSED = (TransposeConv1d, TransposeConv2d, TransposeConv3d)
_GROUPED = (Conv1d, Conv2d, Conv3d, *_TRANSPOSED)
_DEPTHWISE = (DepthWiseConv1d, DepthWiseConv2d)
RECURRENT = ("Lstm", "Gru")
# The initial state, and the flag that continues from the last call.
_LSTM_STATE, _LSTM_FLAG = 10, 24
_GRU_STATE, _GRU_FLAG = 13, 14


class Rows(Protocol):
    """The form of a layer as `rows @ columns`, (groups, m, k) times (groups, k, n).

    Positions of the output (positions, groups * n) are numbered in order.
    """

    def columns(self, weight: Array) -> Array:
        """Return an array of the weight's shape as (groups, k, n)."""

    def weight(self, columns: Array) -> Array:
        """Return columns in the weight's shape: the inverse of `columns`."""

    def rows(self, data: Array, positions: Positions) -> Array:
        """Return the rows of data for some output positions, (groups, m, k)."""


def rows_of(node: Node, ops: OpRegistry) -> Rows | None:
    """Return a node as a product; None if it is not one, or has several matrices."""
    data, weight = node.inputs[0], node.inputs[1]
    assert data is not None
    assert weight is not None
    op = bind_node(ops.find(node.package, node.op_type), node)
    if isinstance(op, FullyConnected):
        return _Matrix(weight.shape, transposed_weight=True, transposed_data=False)
    if isinstance(op, MatMul):
        if math.prod(weight.shape[:-2]) != 1:
            return None
        return _Matrix(weight.shape, bool(op.transpose_in1), bool(op.transpose_in0))
    if not isinstance(op, _GROUPED + _DEPTHWISE):
        return None
    window = op.window(weight.shape)
    return _Sliding(
        weight.shape,
        node.outputs[0].shape[:-1],
        data.shape[-1] if isinstance(op, _DEPTHWISE) else int(op.group),
        window.size,
        window.stride,
        window.dilation,
        tuple(before for before, _ in window.pads),
        spreads=isinstance(op, _TRANSPOSED),
    )


def outputs_at(output: Array, groups: int, positions: Positions) -> Array:
    """Return an output (..., groups * n) at some positions, as (groups, m, n)."""
    flat = output.reshape(-1, output.shape[-1])[positions]
    return flat.reshape(len(positions), groups, -1).swapaxes(0, 1)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A product with one matrix, (..., k, n) or transposed."""

    shape: Shape
    transposed_weight: bool
    transposed_data: bool

    def columns(self, weight: Array) -> Array:
        matrix = weight.reshape(self.shape[-2:])
        return (matrix.T if self.transposed_weight else matrix)[None]

    def weight(self, columns: Array) -> Array:
        (matrix,) = columns
        return np.asarray((matrix.T if self.transposed_weight else matrix).reshape(self.shape))

    def rows(self, data: Array, positions: Positions) -> Array:
        turned = data.swapaxes(-1, -2) if self.transposed_data else data
        summed = self.shape[-1 if self.transposed_weight else -2]
        return np.asarray(turned.reshape(-1, summed)[positions][None])


@dataclass(frozen=True, slots=True)
class _Sliding:
    """A convolution; if it spreads, it is transposed: an input element has an output window."""

    shape: Shape
    positions: Shape
    groups: int
    size: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    spreads: bool

    def columns(self, weight: Array) -> Array:
        split = weight.reshape(math.prod(self.size), *self._inner)
        inner = split.transpose(1, 0, 2, 3) if self.spreads else split.transpose(2, 0, 1, 3)
        return inner.reshape(self.groups, -1, inner.shape[-1])

    def weight(self, columns: Array) -> Array:
        taps = math.prod(self.size)
        split = columns.reshape(self.groups, taps, -1, columns.shape[-1])
        inner = split.transpose(1, 0, 2, 3) if self.spreads else split.transpose(1, 2, 0, 3)
        return inner.reshape(self.shape)

    def rows(self, data: Array, positions: Positions) -> Array:
        channels = data.shape[-1]
        at = np.unravel_index(positions, self.positions)
        found = np.zeros((len(positions), math.prod(self.size), channels), np.float32)
        for number, tap in enumerate(np.ndindex(*self.size)):
            within, where = self._read(at[1:], tap, data.shape[1:-1])
            index = (at[0][within], *(axis[within] for axis in where))
            found[within, number] = data[index]
        split = found.reshape(len(positions), -1, self.groups, channels // self.groups)
        return split.transpose(2, 0, 1, 3).reshape(self.groups, len(positions), -1)

    @property
    def _inner(self) -> tuple[int, int, int]:
        taken, made = self.shape[-2:]
        if self.spreads:
            return self.groups, taken // self.groups, made
        return taken, self.groups, made // self.groups

    def _read(
        self, at: tuple[Positions, ...], tap: tuple[int, ...], sizes: Shape
    ) -> tuple[NDArray[np.bool_], list[Positions]]:
        """Return which output positions a tap reads data for, and the index along each axis."""
        within = np.ones(len(at[0]), np.bool_)
        where = []
        axes = zip(at, tap, sizes, self.stride, self.dilation, self.before, strict=True)
        for position, t, size, stride, dilation, before in axes:
            if self.spreads:
                position, rest = np.divmod(position + before - t * dilation, stride)
                within &= rest == 0
            else:
                position = position * stride + t * dilation - before
            within &= (position >= 0) & (position < size)
            where.append(position)
        return within, where


@dataclass(frozen=True, slots=True)
class Gates:
    """Gates that read the same rows.

    Attributes:
        inputs: Ports of the weights of the step's input, one per gate, or none.
        states: Ports of the weights of the state, likewise.
        biases: Ports of the biases of each gate.
        is_reset: Whether the state is first multiplied by the reset gate (Gru).
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
        """Return arrays of the weights' shapes as (1, k, gates * units)."""
        parts = [np.concatenate([values[i] for i in ports]).T for ports in self._kinds]
        return np.ascontiguousarray(np.concatenate(parts)[None])

    def split(self, columns: Array, values: Mapping[int, Array]) -> dict[int, Array]:
        """Return columns in the weights' shapes: the inverse of `columns`."""
        found: dict[int, Array] = {}
        first = 0
        for ports in self._kinds:
            read = values[ports[0]].shape[1]
            each = np.split(columns[0, first : first + read].T, len(ports))
            found |= dict(zip(ports, each, strict=True))
            first += read
        return found

    def bias(self, statics: Statics) -> Floats:
        """Return the sums of biases, (1, 1, gates * units)."""
        units = len(statics[self.weights[0]])
        zero = np.zeros(units, np.float32)
        sums = [sum((statics[i] for i in ports if i in statics), zero) for ports in self.biases]
        return np.concatenate(sums)[None, None]

    @property
    def _kinds(self) -> list[Ports]:
        return [ports for ports in (self.inputs, self.states) if ports]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A recurrent layer whose gates are products of known values.

    Attributes:
        op: The op.
        gates: All gates, grouped by their inputs.
        state: Number of the input that is the initial state.
    """

    op: Lstm | Gru
    gates: tuple[Gates, ...]
    state: int

    @property
    def weights(self) -> Ports:
        """The ports of all weights of gates."""
        return tuple(i for gates in self.gates for i in gates.weights)

    @property
    def biases(self) -> Ports:
        """The ports of all biases of gates, present or not."""
        return tuple(i for gates in self.gates for ports in gates.biases for i in ports)

    def rows(
        self, gates: Gates, x: Floats, states: Floats, start: Floats | None, statics: Statics
    ) -> Floats:
        """Return the rows that the weights of some gates multiply, (steps * batch, k).

        Args:
            gates: Some gates.
            x: The layer's input, in its declared layout.
            states: Its first output: the state after each step.
            start: The initial state, None for zeros.
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
    """Return the gates of a node as products; None if it is not recurrent, or keeps its state.

    A state that is kept from call to call is unknown here.
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
    """Yield the rows that the weights of some gates multiply in one of the networks, by sample.

    Each is (steps * batch, k). States are always those of the float network: errors of the
    quantized states come from the weights that are being learned.
    """
    statics = statics_of(each, recurrence, exact=True)
    flowing = each.float_inputs if exact else each.quantized_inputs
    starts = each.float_inputs.get(recurrence.state)
    given = starts or itertools.repeat(statics.get(recurrence.state), len(each.float_outputs))
    for x, states, start in zip(flowing[0], each.float_outputs, given, strict=True):
        yield recurrence.rows(gates, x, states, start, statics)


def statics_of(each: WeightedNode, recurrence: Recurrence, *, exact: bool) -> dict[int, Floats]:
    """Return weights and biases of a layer's gates, of the float network or the quantized one."""
    read = each.float_static if exact else each.quantized_static
    found = {i: read(i) for i in (*recurrence.weights, *recurrence.biases, recurrence.state)}
    return {i: values for i, values in found.items() if values is not None}


def _lstm(ports: set[int]) -> Gates:
    """Return all gates of an Lstm; a normalization after the product replaces the bias."""
    gates = ((16, 17, 21), (1, 4, 7), (2, 5, 8), (3, 6, 9))[0 if 16 in ports else 1 :]
    normed = 13 in ports
    return Gates(
        tuple(of_x for of_x, _, _ in gates),
        tuple(of_h for _, of_h, _ in gates),
        tuple(() if normed else (bias,) for _, _, bias in gates),
    )


def _gru(*, linear: bool) -> tuple[Gates, ...]:
    """Return the gates z and r of a Gru; then n, with the reset before or after its product."""
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
