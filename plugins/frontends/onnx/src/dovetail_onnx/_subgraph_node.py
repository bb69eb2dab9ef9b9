"""Nodes with subgraphs or sequences, and the operations to read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import Array, Graph, Shape, Spec
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._bodies import Body, instantiate
from dovetail_onnx._source import SourceNode
from dovetail_opset.importing.constant import Constant, Value
from dovetail_opset.importing.forms import FormBudget
from dovetail_opset.importing.problems import ValueNeededError


@dataclass(frozen=True, slots=True)
class Apart:
    """A subgraph that was read in a graph of its own.

    Attributes:
        graph: That graph, whose inputs have the subgraph's names.
        values: The subgraph's outputs; None if there was a problem.
    """

    graph: Graph
    values: list[Value | None]


class Reader(Protocol):
    """The reader of a subgraph's nodes, which knows the values.

    Attributes:
        form_budget: What may still be computed to recognize loops.
    """

    form_budget: FormBudget

    def read_body(self, nodes: Sequence[NodeProto], outputs: Iterable[str], by: SourceNode) -> bool:
        """Read nodes, whose `outputs` are used; return whether there was no problem.

        Raises:
            UnsupportedOpError: The model would grow too large.
        """

    def read_apart(
        self,
        graph: GraphProto,
        inputs: Mapping[str, Spec],
        constants: Mapping[str, Constant],
        by: SourceNode,
    ) -> Apart:
        """Read a subgraph in a graph of its own; see `Apart`."""

    def is_sound(self, graph: GraphProto) -> bool:
        """Return whether all nodes of a subgraph are supported, valid and sorted.

        One with subgraphs of its own is not.
        """

    def fresh(self, name: str) -> str:
        """Return a name like this that the model does not have."""

    def value(self, name: str) -> Value | None:
        """Return a value; None if it is not known."""

    def set(self, name: str, value: Value) -> None:
        """Store a value under its name."""

    def is_known(self, name: str) -> bool:
        """Return whether a name is that of a value or a sequence."""

    def depends_on_numbers(self, name: str) -> bool:
        """Return whether a value is computed from inputs of the model that are real numbers."""

    def alias(self, name: str, other: str) -> None:
        """Store a value or sequence, if it is known, under another name."""

    def sequence(self, name: str) -> tuple[str, ...] | None:
        """Return the names of a sequence's elements; None if it is none."""

    def set_sequence(self, name: str, elements: Sequence[str]) -> None:
        """Store the names of a sequence's elements under its name."""

    def set_initializer(self, name: str, proto: TensorProto) -> None:
        """Make a constant known under its name."""


class SubgraphNode:
    """One node that other nodes replace, and the operations to read these.

    Args:
        node: The node, which has subgraphs, or reads or writes sequences.
        reader: Reads the other nodes.

    Attributes:
        node: As given.
        reader: As given.
        attr: The node's attributes.
    """

    def __init__(self, node: SourceNode, reader: Reader) -> None:
        self.node = node
        self.reader = reader
        self.attr = Attributes(node.proto)
        self._names: dict[str, str] = {}

    def graph(self, name: str) -> GraphProto:
        """Return the graph in an attribute."""
        for attribute in self.node.proto.attribute:
            if attribute.name == name and attribute.type == AttributeProto.GRAPH:
                found: GraphProto = attribute.g
                return found
        raise self.invalid(f"missing graph '{name}'")

    def name(self, i: int) -> str:
        """Return an input's name, empty if it is omitted."""
        return self.node.inputs[i] if i < len(self.node.inputs) else ""

    def known(self, name: str, what: str) -> Array:
        """Return a value that must be known at import."""
        value = self.reader.value(name)
        if not isinstance(value, Constant):
            raise ValueNeededError(
                f"{what} '{name}' is computed from the model's inputs; it must be known when "
                "the model is converted",
                name,
                where=self.node.where,
                hint="control flow that depends on data belongs to the application: split the "
                "model there",
            )
        return value.values

    def unroll(self, graph: GraphProto, turn: str, given: Sequence[str]) -> list[str] | None:
        """Read one iteration of a graph; return its outputs' names, None if there was a problem.

        Args:
            graph: The graph.
            turn: Names the iteration.
            given: Names of the values of its inputs.
        """
        if len(given) != len(graph.input):
            raise self.invalid(
                f"the graph '{graph.name}' has {len(graph.input)} inputs, but the node passes "
                f"{len(given)}"
            )
        names = dict(zip((i.name for i in graph.input), given, strict=True))
        body: Body = instantiate(graph, f"{self.node.name}.{turn}.", names)
        for name, proto in body.initializers.items():
            self.reader.set_initializer(name, proto)
        done = self.reader.read_body(body.nodes, body.outputs, self.node)
        if done and not all(map(self.reader.is_known, body.outputs)):
            raise self.invalid(
                f"the graph '{graph.name}' reads undefined tensors, or is not sorted"
            )
        return body.outputs if done else None

    def read_apart(
        self,
        graph: GraphProto,
        inputs: Mapping[str, Spec],
        constants: Mapping[str, Constant],
        names: Mapping[str, str],
    ) -> Apart:
        """Read a subgraph in a graph of its own, with the constants around it.

        Args:
            graph: The subgraph.
            inputs: What it reads as inputs, by its names.
            constants: Constants, by its names.
            names: Names of values around it, by its names.
        """
        read = {name for node in graph.node for name in node.input if name}
        read.update(output.name for output in graph.output)
        known = dict(constants)
        for name in read.difference(inputs, known):
            value = self.reader.value(names.get(name, name))
            if isinstance(value, Constant):
                known[name] = value
        return self.reader.read_apart(graph, inputs, known, self.node)

    def known_number(self, name: str, what: str) -> Array:
        """Return the value of a tensor that must be known at import and be a single number."""
        found = self.known(name, what)
        if found.size != 1:
            raise self.invalid(
                f"{what} '{name}' must be a single number, got {found.size} elements"
            )
        return found.reshape(())

    def scalar(self, name: str) -> str | None:
        """Return the name of a tensor of one element as a scalar, None if there was a problem."""
        shape = self.shape(name)
        if shape == ():
            return name
        if math.prod(shape) != 1:
            raise self.invalid(f"'{name}' must be a single number, got the shape {shape}")
        made = self.name_of("scalar")
        sizes = self.constant("shape", np.zeros(0, np.int64))
        node = helper.make_node("Reshape", [name, sizes], [made], made)
        return made if self.read([node], [made]) else None

    def check_alike(self, condition: str, name: str, other: str, output: int) -> None:
        """Raise if an output of two branches is not one tensor of one shape and type.

        Raises:
            ValueNeededError: It is not, so that the condition must be known.
        """
        made, others = self.reader.value(name), self.reader.value(other)
        if made is None or others is None:
            why = "a sequence"
        elif (made.shape, made.dtype) != (others.shape, others.dtype):
            why = f"{made.dtype.name} {made.shape} or {others.dtype.name} {others.shape}"
        else:
            return
        raise ValueNeededError(
            f"condition '{condition}' is computed from the model's inputs; it must be known when "
            f"the model is converted, because output {output} is {why}",
            condition,
            where=self.node.where,
            hint="give the branches outputs of the same shape, or split the model there",
        )

    def invalid(self, why: str) -> FrontendError:
        """Return the error for an invalid node, to be raised."""
        return FrontendError(why, where=self.node.where)

    def constant(self, suffix: str, values: Array) -> str:
        """Make a constant known, and return its name."""
        name = self.name_of(suffix)
        self.reader.set(name, Constant.of(values, name))
        return name

    def name_of(self, suffix: str) -> str:
        """Return the name of a part of the node, which nothing else in the model has."""
        if suffix not in self._names:
            self._names[suffix] = self.reader.fresh(f"{self.node.name}.{suffix}")
        return self._names[suffix]

    def give(self, outputs: Sequence[str]) -> None:
        """Make values or sequences of these names the node's outputs."""
        for name, inner in zip(self.node.outputs, outputs, strict=False):
            if name:
                self.reader.alias(name, inner)

    def give_sequence(self, elements: Sequence[str]) -> None:
        """Make a sequence of these elements the node's output."""
        self.reader.set_sequence(self.node.outputs[0], elements)

    def read(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> bool:
        """Read nodes, whose `outputs` are used; return whether there was no problem."""
        return self.reader.read_body(nodes, outputs, self.node)

    def shape(self, name: str) -> Shape:
        """Return the shape of a value."""
        value = self.reader.value(name)
        if value is None:
            raise self.invalid(f"input '{name}' is not a tensor")
        return tuple(value.shape)

    def check_count(self, given: int) -> None:
        """Raise if a node has more outputs than its graph."""
        if any(self.node.outputs[given:]):
            raise self.invalid(
                f"the node has {len(self.node.outputs)} outputs, but its graph has {given}"
            )

    def check_outputs(self, graph: GraphProto, least: int) -> None:
        """Raise if a graph has too few outputs."""
        if len(graph.output) < least:
            raise self.invalid(
                f"the graph '{graph.name}' has {len(graph.output)} outputs; expected at "
                f"least {least}"
            )

    def stack(self, parts: Sequence[str], axis: int, output: int) -> None:
        """Add an output: the parts of all iterations, stacked along a new axis."""
        if output >= len(self.node.outputs) or not self.node.outputs[output]:
            return
        made = self.joined(f"stack{output}", parts, axis)
        if made is not None:
            self.give([""] * output + [made])

    def joined(self, suffix: str, parts: Sequence[str], axis: int) -> str | None:
        """Return the name of parts stacked along a new axis, None if there was a problem.

        Args:
            suffix: Names it, after the node's name.
            parts: Names of the parts.
            axis: The new axis.
        """
        if not parts:
            raise UnsupportedOpError(
                "the loop has no iteration, which leaves the shape of an output unknown",
                where=self.node.where,
            )
        stem, nodes, rows = f"{self.node.name}.{suffix}", [], []
        for i, part in enumerate(parts):
            rows.append(f"{stem}.{i}")
            nodes.append(self._unsqueeze(part, axis, rows[-1]))
        made = f"{stem}.made"
        nodes.append(helper.make_node("Concat", rows, [made], f"{stem}.concat", axis=axis))
        return made if self.read(nodes, [made]) else None

    def taken(
        self, suffix: str, names: Sequence[str], axes: Sequence[int], indices: Sequence[int]
    ) -> list[str] | None:
        """Return the names of a slice of each tensor, None if there was a problem.

        Args:
            suffix: Names them, after the node's name.
            names: Names of the tensors.
            axes: The axis of each tensor that the slice lacks.
            indices: The index along that axis, for each tensor.
        """
        nodes = []
        for i, (name, axis, index) in enumerate(zip(names, axes, indices, strict=True)):
            at = self.constant(f"at{index}", np.asarray(index, np.int64))
            made = f"{self.node.name}.{suffix}.{i}"
            nodes.append(helper.make_node("Gather", [name, at], [made], made, axis=axis))
        made_names = [node.output[0] for node in nodes]
        return made_names if self.read(nodes, made_names) else None

    def _unsqueeze(self, part: str, axis: int, row: str) -> NodeProto:
        if self.node.opset < 13:
            return helper.make_node("Unsqueeze", [part], [row], row, axes=[axis])
        axes = self.constant(f"axis{axis}", np.asarray([axis], np.int64))
        return helper.make_node("Unsqueeze", [part, axes], [row], row)
