"""Patterns of nodes, such as a normalization that an exporter wrote in small ops.

A pattern describes a value: by the op that computes it and by patterns of the op's inputs. A name
is that of one value, wherever it occurs.

    x = value("x")
    square = either(op("ElementWisePower", x, number(2)), op("ElementWiseMultiply", x, x))
    mean = op("ReduceMean", square)

    for match in find(mean, GraphView(graph, "qti.aisw"), node.outputs[0]):
        ...  # match.values["x"], match.nodes

Patterns read a graph through a `View`: `GraphView` for `Graph`, or that of a frontend for the form
in which it reads a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from dovetail.ir.graph import Node
from dovetail.ir.tensor import Tensor, TensorKind

Value = TypeVar("Value")
NodeT = TypeVar("NodeT")


class View(Protocol[Value, NodeT]):
    """A graph of nodes and values, which compare equal if they are the same."""

    def producer(self, value: Value, /) -> NodeT | None:
        """Return the node that computes a value, or None."""

    def op_type(self, node: NodeT, /) -> str:
        """Return the op type as patterns state it; an empty text matches none."""

    def inputs(self, node: NodeT, /) -> Sequence[Value | None]:
        """Return the inputs of a node, None for an omitted one."""

    def number(self, value: Value, /) -> float | None:
        """Return the number in a constant of one element; None for any other value."""


@dataclass(frozen=True, slots=True)
class Match(Generic[Value, NodeT]):
    """A value that has the form of a pattern.

    Attributes:
        values: The named values.
        nodes: The nodes that compute it, along the data flow.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    nodes: tuple[NodeT, ...] = ()


Matches: TypeAlias = Callable[[View[Any, Any], Any, Match[Any, Any]], Iterator[Match[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The form of a value.

    Attributes:
        matches: Returns every way in which a value has this form, added to a match so far.
        may_occur: Returns whether a graph of nodes of these op types may have such values.
    """

    matches: Matches
    may_occur: Callable[[Collection[str]], bool] = lambda _: True


def find(pattern: Pattern, view: View[Value, NodeT], value: Value) -> Iterator[Match[Value, NodeT]]:
    """Return every way in which a value has the form of a pattern."""
    return pattern.matches(view, value, Match())


def value(name: str, pattern: Pattern | None = None) -> Pattern:
    """Return a pattern of a named value, which has another pattern too, if one is given."""

    def match(view: View[Any, Any], found: Any, so_far: Match[Any, Any]) -> Iterator[Any]:
        if name in so_far.values:
            if so_far.values[name] == found:
                yield so_far
            return
        named = Match({**so_far.values, name: found}, so_far.nodes)
        yield from [named] if pattern is None else pattern.matches(view, found, named)

    return Pattern(match) if pattern is None else Pattern(match, pattern.may_occur)


def number(wanted: float, *, near: float = 0.0) -> Pattern:
    """Return a pattern of a constant of one element.

    Args:
        wanted: Its number.
        near: The largest relative difference.
    """

    def match(view: View[Any, Any], found: Any, so_far: Match[Any, Any]) -> Iterator[Any]:
        known = view.number(found)
        if known is not None and math.isclose(known, wanted, rel_tol=near):
            yield so_far

    return Pattern(match)


def any_number(name: str) -> Pattern:
    """Return a pattern of a named constant of one element."""
    named = value(name)

    def match(view: View[Any, Any], found: Any, so_far: Match[Any, Any]) -> Iterator[Any]:
        if view.number(found) is not None:
            yield from named.matches(view, found, so_far)

    return Pattern(match)


def op(
    op_type: str,
    *inputs: Pattern,
    where: Callable[[Any], bool] | None = None,
    in_any_order: bool = False,
) -> Pattern:
    """Return a pattern of the result of an op.

    Args:
        op_type: The type of the op.
        inputs: Patterns of all its inputs, of which none may be omitted; without any patterns, the
            inputs may be anything.
        where: A further condition on the node.
        in_any_order: Whether the inputs may have any order.
    """

    def match(view: View[Any, Any], found: Any, so_far: Match[Any, Any]) -> Iterator[Any]:
        node = view.producer(found)
        if node is None or view.op_type(node) != op_type or not (where is None or where(node)):
            return
        given = view.inputs(node) if inputs else ()
        if len(given) != len(inputs) or None in given:
            return
        for order in permutations(given) if in_any_order else [given]:
            for each in _match_all(view, inputs, order, so_far):
                nodes = each.nodes if node in each.nodes else (*each.nodes, node)
                yield Match(each.values, nodes)

    def may_occur(op_types: Collection[str]) -> bool:
        return op_type in op_types and all(each.may_occur(op_types) for each in inputs)

    return Pattern(match, may_occur)


def commutative(op_type: str, first: Pattern, second: Pattern) -> Pattern:
    """Return a pattern of the result of an op whose two inputs may have either order."""
    return op(op_type, first, second, in_any_order=True)


def either(*patterns: Pattern) -> Pattern:
    """Return a pattern of a value that has one of several patterns."""

    def match(view: View[Any, Any], found: Any, so_far: Match[Any, Any]) -> Iterator[Any]:
        for pattern in patterns:
            yield from pattern.matches(view, found, so_far)

    return Pattern(match, lambda op_types: any(each.may_occur(op_types) for each in patterns))


def _match_all(
    view: View[Any, Any],
    patterns: Sequence[Pattern],
    values: Sequence[Any],
    so_far: Match[Any, Any],
) -> Iterator[Match[Any, Any]]:
    """Match each value with its pattern, backtracking where a later one does not fit."""
    if not patterns:
        yield so_far
        return
    for found in patterns[0].matches(view, values[0], so_far):
        yield from _match_all(view, patterns[1:], values[1:], found)


@dataclass(frozen=True, slots=True)
class Products:
    """Patterns of products with numbers, which may multiply or divide.

    Attributes:
        multiply, divide: The op types.
        near: The largest relative difference of the numbers.
    """

    multiply: str
    divide: str
    near: float

    def of(self, first: Pattern, second: Pattern) -> Pattern:
        """Return the pattern of the product of two values."""
        return commutative(self.multiply, first, second)

    def scaled(self, x: Pattern, factor: float) -> Pattern:
        """Return the pattern of a value times a number."""
        return either(
            self.of(x, number(factor, near=self.near)),
            op(self.divide, x, number(1 / factor, near=self.near)),
        )

    def scaled_of(self, first: Pattern, second: Pattern, factor: float) -> Pattern:
        """Return the pattern of the product of two values and a number, in any grouping."""
        return either(
            self.scaled(self.of(first, second), factor),
            self.of(self.scaled(first, factor), second),
            self.of(first, self.scaled(second, factor)),
        )


class Producers(Protocol):
    """A graph, or a part of one: matches do not go beyond it."""

    def producer(self, tensor: Tensor) -> Node | None:
        """Return the node of it that writes a tensor, or None."""


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph as patterns of the ops of one package read it."""

    graph: Producers
    package: str

    def producer(self, value: Tensor) -> Node | None:
        """Return the node that writes a tensor, or None."""
        return self.graph.producer(value)

    def op_type(self, node: Node) -> str:
        """Return the name of an op of the package, an empty text for others."""
        return node.op_type if node.package == self.package else ""

    def inputs(self, node: Node) -> tuple[Tensor | None, ...]:
        """Return the inputs of a node, None for an omitted one."""
        return node.inputs

    def number(self, value: Tensor) -> float | None:
        """Return the number in a constant of one float that a pass may compute with."""
        return constant_number(value)


def constant_number(tensor: Tensor | None) -> float | None:
    """Return the number in a constant of one float of 32 or more bits; None for other tensors."""
    if tensor is None or tensor.kind is not TensorKind.STATIC or tensor.data is None:
        return None
    if not tensor.dtype.is_float or tensor.dtype.bits < 32 or math.prod(tensor.shape) != 1:
        return None
    return float(tensor.values().reshape(-1)[0])
