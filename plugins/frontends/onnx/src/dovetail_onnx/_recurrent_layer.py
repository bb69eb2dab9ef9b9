"""Loop and Scan whose body is one step of a recurrent layer become that layer's operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._step_body import MOST_TURNS, CountedLoop, Sequenced, StepBody, part_of
from dovetail_onnx._subgraph_node import SubgraphNode
from dovetail_onnx.operators.simple_recurrent import can_convert
from dovetail_opset.importing.cells import Cell, Step, recognize_cell

_FLOATS = (DType.FLOAT_32, DType.FLOAT_16)
_OPERATORS = {"Lstm": "LSTM", "Gru": "GRU", "Rnn": "RNN"}
# ONNX's order of a cell's gates: its LSTM has i, o, f, c.
_ORDER = {"Lstm": (0, 3, 1, 2), "Gru": (0, 1, 2), "Rnn": (0,)}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that replaces a loop or scan.

    Attributes:
        states: Names of the last states.
        rows: Names of the sequences that it writes, steps first.
    """

    states: Sequence[str]
    rows: Sequence[str]


def read_recurrent_loop(
    control: SubgraphNode, graph: GraphProto, most: int | None, carried: Sequence[str]
) -> bool:
    """Read a Loop as a layer; return whether that was possible.

    Args:
        control: The Loop.
        graph: Its body.
        most: Its trip count.
        carried: Names of the initial values of what it carries.
    """
    if len(graph.input) != 2 + len(carried) or (most is not None and most < 1):
        return False
    if not (control.reader.form_budget.has_loop() and control.reader.is_sound(graph)):
        return False  # the iterations of a wrong one show what is wrong
    loop, first = CountedLoop(control, graph, carried), len(carried)
    outputs = control.node.outputs
    ports = [i for i in range(first, len(outputs)) if outputs[i]]
    body = loop.body(most, [graph.output[1 + i].name for i in ports])
    layer = None if body is None else _read_layer(control, body)
    if layer is None:
        return False
    ends = loop.ends | dict(zip(loop.states, layer.states, strict=True))
    given = [ends[i] for i in range(first)] + [""] * (len(outputs) - first)
    for i, name in zip(ports, layer.rows, strict=True):
        given[i] = name
    control.give(given)
    return True


def read_recurrent_scan(
    control: SubgraphNode, graph: GraphProto, starts: Sequence[str], sequences: Sequence[Sequenced]
) -> Layer | None:
    """Read a Scan as a layer; return None if that was not possible.

    Args:
        control: The Scan.
        graph: Its body.
        starts: Names of the initial states.
        sequences: Its other inputs.
    """
    if len(sequences) != 1 or not 1 <= len(sequences[0].positions) <= MOST_TURNS:
        return None
    if len(graph.input) != len(starts) + 1:
        return None
    if not (control.reader.form_budget.has_loop() and control.reader.is_sound(graph)):
        return None
    *states, part = (i.name for i in graph.input)
    whole = part_of(graph, graph.node, [o.name for o in graph.output])
    return _read_layer(control, StepBody(whole, sequences[0], part, states, starts, {}))


def _read_layer(control: SubgraphNode, body: StepBody) -> Layer | None:
    """Read the layer whose step a body is; return None if it is none."""
    sequence, given = control.reader.value(body.sequence.name), body.sequence
    starts = [v for name in body.starts if (v := control.reader.value(name)) is not None]
    if sequence is None or sequence.dtype not in _FLOATS or len(starts) < len(body.starts):
        return None
    shape = list(sequence.shape)
    shape[given.axis : given.axis + 1] = [1] if given.keeps_axis else []
    reads = {body.part: Spec(sequence.dtype, tuple(shape))}
    pairs = zip(body.states, starts, strict=True)
    reads |= {name: Spec(value.dtype, tuple(value.shape)) for name, value in pairs}
    found = control.read_apart(body.graph, reads, {}, body.names)
    tensors = [value for value in found.values if isinstance(value, Tensor)]
    if len(tensors) < len(found.values):
        return None
    x, *states = (found.graph.tensor(name) for name in reads)
    results, rows = tensors[: len(states)], tensors[len(states) :]
    cell = recognize_cell(Step(found.graph, x, states, results, rows), control.reader.form_budget)
    if cell is None:
        return None
    if cell.op_type == "Rnn" and not can_convert(cell.function, len(given.positions)):
        return None
    writer = _Writer(control, body, cell, x.spec, states[cell.hidden].shape)
    return writer.write([row.shape for row in rows])


class _Writer:
    """Writes the nodes of a layer.

    Args:
        control: The node that it replaces.
        body: The node's body.
        cell: The body's cell.
        x: The spec of a slice.
        h: The shape of a state.
    """

    def __init__(
        self, control: SubgraphNode, body: StepBody, cell: Cell, x: Spec, h: Shape
    ) -> None:
        self._control, self._body, self._cell, self._x, self._h = control, body, cell, x, h
        self._nodes: list[NodeProto] = []

    def write(self, rows: Sequence[Shape]) -> Layer | None:
        """Write the layer; return None if there was a problem, which the reader has recorded.

        Args:
            rows: Shapes of the rows of the sequences that it writes.
        """
        cell, body, steps = self._cell, self._body, len(self._body.sequence.positions)
        batch, units = math.prod(self._h[:-1]), self._h[-1]
        x = self._reshaped("x", self._ordered(), (steps, batch, self._x.shape[-1]))
        kept = [cell.hidden] if cell.memory is None else [cell.hidden, cell.memory]
        initial = [self._reshaped(f"initial{i}", body.starts[i], (1, batch, units)) for i in kept]
        attributes: dict[str, Any] = {"hidden_size": units}
        if cell.op_type == "Gru":
            attributes["linear_before_reset"] = int(cell.resets_products)
        if cell.op_type == "Rnn":
            attributes["activations"] = [cell.function]
        inputs = [x, *self._weights(), "", *initial]
        named = self._control.name_of
        y, states = named("y"), {i: named(f"state{i}") for i in kept}
        operator, outputs = _OPERATORS[cell.op_type], [y, *states.values()]
        self._nodes.append(
            helper.make_node(operator, inputs, outputs, named("layer"), **attributes)
        )
        last = [self._reshaped(f"last{i}", states[i], self._h) for i in sorted(states)]
        written = [self._reshaped(f"rows{i}", y, (steps, *shape)) for i, shape in enumerate(rows)]
        reader, node = self._control.reader, self._control.node
        done = reader.read_body(self._nodes, [*last, *written], node)
        return Layer(last, written) if done else None

    def _add(self, operator: str, suffix: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = self._control.name_of(suffix)
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def _reshaped(self, suffix: str, name: str, shape: Shape) -> str:
        target = self._control.constant(f"{suffix}.shape", np.asarray(shape, np.int64))
        return self._add("Reshape", suffix, [name, target])

    def _ordered(self) -> str:
        """Return the name of the slices in the order of the steps, steps first."""
        given, name = self._body.sequence, self._body.sequence.name
        value = self._control.reader.value(name)
        shape = () if value is None else tuple(value.shape)
        count = shape[given.axis]
        if len(given.positions) != count or not np.array_equal(given.positions, range(count)):
            positions = self._control.constant("positions", np.asarray(given.positions))
            name = self._add("Gather", "slices", [name, positions], axis=given.axis)
        if given.axis:
            perm = [given.axis, *(i for i in range(len(shape)) if i != given.axis)]
            name = self._add("Transpose", "steps", [name], perm=perm)
        return name

    def _weights(self) -> list[str]:
        """Store W, R and B as constants, and return their names."""
        gates = [self._cell.gates[i] for i in _ORDER[self._cell.op_type]]
        parts = {
            "W": [gate.inputs for gate in gates],
            "R": [gate.recurrent for gate in gates],
            "B": [gate.bias for gate in gates] + [gate.recurrent_bias for gate in gates],
        }
        dtype = self._x.dtype.storage
        return [
            self._control.constant(name, np.concatenate(part)[None].astype(dtype, copy=False))
            for name, part in parts.items()
        ]
