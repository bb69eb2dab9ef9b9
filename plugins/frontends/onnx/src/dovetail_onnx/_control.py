"""If, Loop and Scan: what they carry is read in their place, as often as they run it.

So the choice of If and the number of turns of Loop must be known at import. Scan makes as many as
its inputs are long, which always is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import Array
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._bodies import Body, instantiate
from dovetail_onnx._dtypes import Constant
from dovetail_onnx._refusals import ValueNeededError
from dovetail_onnx._registry import Value
from dovetail_onnx._source import SourceNode


class Reader(Protocol):
    """What reads the nodes of a carried graph and knows the values."""

    def read_body(self, nodes: Sequence[NodeProto], outputs: Iterable[str], by: SourceNode) -> bool:
        """Reads nodes; `outputs` are what is wanted of them. Gives whether all went well.

        Raises:
            UnsupportedOpError: The model grows too large in this way.
        """

    def value(self, name: str) -> Value | None:
        """Gives a value, None where it is not known."""

    def set(self, name: str, value: Value) -> None:
        """Makes a value known."""

    def set_initializer(self, name: str, proto: TensorProto) -> None:
        """Makes a constant of the file known."""


def read_control(node: SourceNode, reader: Reader) -> None:
    """Reads a node that carries graphs, and makes its outputs known.

    Raises:
        FrontendError: It lacks a graph, or does not fit it.
        UnsupportedOpError: What decides how often the graphs run is not known, or they run too
            often.
    """
    _CONTROL[node.op_type](_Control(node, reader))


class _Control:
    """One such node, with what reading it needs."""

    def __init__(self, node: SourceNode, reader: Reader) -> None:
        self.node = node
        self.reader = reader
        self.attr = Attributes(node.proto)

    def graph(self, name: str) -> GraphProto:
        """Gives the graph in an attribute."""
        for attribute in self.node.proto.attribute:
            if attribute.name == name and attribute.type == AttributeProto.GRAPH:
                found: GraphProto = attribute.g
                return found
        raise self.invalid(f"it lacks the graph '{name}'")

    def name(self, i: int) -> str:
        """Gives an input's name, empty where it is left out."""
        return self.node.inputs[i] if i < len(self.node.inputs) else ""

    def known(self, name: str, what: str) -> Array:
        """Gives a value that must be known at import."""
        value = self.reader.value(name)
        if not isinstance(value, Constant):
            raise ValueNeededError(
                f"its {what} '{name}' is computed from the model's inputs; it must be known when "
                "the model is converted",
                name,
                where=self.node.where,
                hint="control flow that depends on data belongs to the application: split the "
                "model there",
            )
        return value.values

    def turn(self, graph: GraphProto, turn: str, given: Sequence[str]) -> list[str] | None:
        """Reads one turn of a graph, and gives its outputs' names; None if something was refused.

        Args:
            graph: The graph.
            turn: Names the turn.
            given: Names of what its inputs are.
        """
        if len(given) != len(graph.input):
            raise self.invalid(
                f"its graph '{graph.name}' has {len(graph.input)} inputs, where it gives "
                f"{len(given)}"
            )
        names = dict(zip((i.name for i in graph.input), given, strict=True))
        body: Body = instantiate(graph, f"{self.node.name}.{turn}.", names)
        for name, proto in body.initializers.items():
            self.reader.set_initializer(name, proto)
        done = self.reader.read_body(body.nodes, body.outputs, self.node)
        if done and any(self.reader.value(name) is None for name in body.outputs):
            raise self.invalid(f"its graph '{graph.name}' reads what nothing gives, or is unsorted")
        return body.outputs if done else None

    def known_number(self, name: str, what: str) -> Array:
        """Gives a value that must be known at import, and one number."""
        found = self.known(name, what)
        if found.size != 1:
            raise self.invalid(f"its {what} '{name}' has {found.size} elements; it must be one")
        return found.reshape(())

    def invalid(self, why: str) -> FrontendError:
        """Gives the error for what the model must not say; raise it."""
        return FrontendError(why, where=self.node.where)

    def constant(self, suffix: str, values: Array) -> str:
        """Makes a constant known, and gives its name."""
        name = f"{self.node.name}.{suffix}"
        self.reader.set(name, Constant.of(values, name))
        return name

    def give(self, outputs: Sequence[str]) -> None:
        """Makes the node's outputs those of its graph."""
        for name, inner in zip(self.node.outputs, outputs, strict=False):
            value = self.reader.value(inner)
            if name and value is not None:
                self.reader.set(name, value)

    def check_count(self, given: int) -> None:
        """Refuses a node that has more outputs than its graph gives."""
        if any(self.node.outputs[given:]):
            raise self.invalid(
                f"it has {len(self.node.outputs)} outputs where its graph gives {given}"
            )

    def stack(self, parts: Sequence[str], axis: int, output: int) -> None:
        """Makes an output of the parts that the turns gave, along a new axis."""
        if output >= len(self.node.outputs) or not self.node.outputs[output]:
            return
        if not parts:
            raise UnsupportedOpError(
                "it makes no turn, which leaves the shape of an output open", where=self.node.where
            )
        stem, nodes, rows = f"{self.node.name}.stack{output}", [], []
        for i, part in enumerate(parts):
            rows.append(f"{stem}.{i}")
            nodes.append(self._unsqueeze(part, axis, rows[-1]))
        made = f"{stem}.made"
        nodes.append(helper.make_node("Concat", rows, [made], f"{stem}.concat", axis=axis))
        if self.reader.read_body(nodes, [made], self.node):
            self.give([""] * output + [made])

    def _unsqueeze(self, part: str, axis: int, row: str) -> NodeProto:
        if self.node.opset < 13:
            return helper.make_node("Unsqueeze", [part], [row], row, axes=[axis])
        axes = self.constant(f"axis{axis}", np.asarray([axis], np.int64))
        return helper.make_node("Unsqueeze", [part, axes], [row], row)


def _branch(control: _Control) -> None:
    """If: the one branch that its condition asks for."""
    taken = bool(control.known_number(control.name(0), "condition"))
    graph = control.graph("then_branch" if taken else "else_branch")
    outputs = control.turn(graph, "then" if taken else "else", [])
    if outputs is not None:
        control.check_count(len(outputs))
        control.give(outputs)


def _loop(control: _Control) -> None:
    """Loop: turn by turn, as long as its condition and its count say."""
    graph = control.graph("body")
    count, condition = control.name(0), control.name(1)
    most = int(control.known_number(count, "trip count")) if count else None
    going = not condition or bool(control.known_number(condition, "condition"))
    carried = list(control.node.inputs[2:])
    _check_outputs(control, graph, 1 + len(carried))
    rows: list[list[str]] = [[] for _ in graph.output[1 + len(carried) :]]
    control.check_count(len(carried) + len(rows))
    turn = 0
    while going and (most is None or turn < most):
        index = control.constant(f"index{turn}", np.asarray(turn, np.int64))
        again = control.constant(f"again{turn}", np.asarray(True))
        outputs = control.turn(graph, str(turn), [index, again, *carried])
        if outputs is None:
            return
        going = bool(control.known_number(outputs[0], "condition"))
        carried = outputs[1 : 1 + len(carried)]
        for row, name in zip(rows, outputs[1 + len(carried) :], strict=True):
            row.append(name)
        turn += 1
    control.give(carried)
    for i, row in enumerate(rows):
        control.stack(row, 0, len(carried) + i)


def _check_outputs(control: _Control, graph: GraphProto, least: int) -> None:
    if len(graph.output) < least:
        raise control.invalid(
            f"its graph '{graph.name}' has {len(graph.output)} outputs; it needs {least}"
        )


def _scan(control: _Control) -> None:
    """Scan: one turn for each slice of its inputs."""
    if control.node.opset < 9:
        raise UnsupportedOpError(
            "version 8 of Scan, with a batch, cannot be converted",
            where=control.node.where,
            hint="convert the model to opset 13 or later with onnx.version_converter",
        )
    graph, count = control.graph("body"), control.attr.integer("num_scan_inputs", 1)
    if not 1 <= count <= len(control.node.inputs):
        raise control.invalid(f"its num_scan_inputs is {count}; it has {len(control.node.inputs)}")
    states = list(control.node.inputs[: len(control.node.inputs) - count])
    _check_outputs(control, graph, len(states))
    rows: list[list[str]] = [[] for _ in graph.output[len(states) :]]
    control.check_count(len(states) + len(rows))
    slices = _Slices(control, control.node.inputs[len(states) :])
    for turn in range(slices.length):
        taken = slices.take(turn)
        outputs = None if taken is None else control.turn(graph, str(turn), [*states, *taken])
        if outputs is None:
            return
        states = outputs[: len(states)]
        for row, name in zip(rows, outputs[len(states) :], strict=True):
            row.append(name)
    control.give(states)
    axes = control.attr.integers("scan_output_axes") or (0,) * len(rows)
    backwards = control.attr.integers("scan_output_directions") or (0,) * len(rows)
    if not len(axes) == len(backwards) == len(rows):
        raise control.invalid(f"its attributes do not fit the {len(rows)} outputs of its turns")
    for i, row in enumerate(rows):
        control.stack(row[::-1] if backwards[i] else row, axes[i], len(states) + i)


class _Slices:
    """The inputs of Scan that are taken slice by slice."""

    def __init__(self, control: _Control, names: Sequence[str]) -> None:
        self._control = control
        self._names = names
        axes = control.attr.integers("scan_input_axes") or (0,) * len(names)
        self._backwards = control.attr.integers("scan_input_directions") or (0,) * len(names)
        shapes = [tuple(v.shape) for n in names if (v := control.reader.value(n)) is not None]
        fits = len(shapes) == len(axes) == len(self._backwards)
        fits = fits and all(-len(s) <= a < len(s) for s, a in zip(shapes, axes, strict=True))
        lengths = {s[a] for s, a in zip(shapes, axes, strict=True)} if fits else set()
        if len(lengths) != 1:
            raise control.invalid(
                "its inputs are of several lengths, or its attributes do not fit them"
            )
        self._axes = [a % len(s) for s, a in zip(shapes, axes, strict=True)]
        self.length = lengths.pop()

    def take(self, turn: int) -> list[str] | None:
        """Reads the slices for one turn, and gives their names; None if one was refused."""
        nodes = []
        for i, (name, axis) in enumerate(zip(self._names, self._axes, strict=True)):
            place = self.length - 1 - turn if self._backwards[i] else turn
            index = self._control.constant(f"at{place}", np.asarray(place, np.int64))
            made = f"{self._control.node.name}.slice{i}.{turn}"
            nodes.append(helper.make_node("Gather", [name, index], [made], made, axis=axis))
        names = [node.output[0] for node in nodes]
        return names if self._control.reader.read_body(nodes, names, self._control.node) else None


_CONTROL: dict[str, Callable[[_Control], None]] = {"If": _branch, "Loop": _loop, "Scan": _scan}
CONTROL = frozenset(_CONTROL)
