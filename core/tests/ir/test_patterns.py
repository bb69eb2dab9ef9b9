"""Patterns find each reading of a value, and nothing that only resembles it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ir.patterns import (
    GraphView,
    Products,
    any_number,
    commutative,
    constant_number,
    either,
    find,
    number,
    op,
    value,
)

X, Y = value("x"), value("y")


class Net:
    """A graph that grows by one node at a time."""

    def __init__(self) -> None:
        self.graph = Graph("net")
        self.x, self.y = (self.tensor(name, TensorKind.APP_WRITE) for name in "xy")

    def tensor(self, name: str, kind: TensorKind = TensorKind.NATIVE) -> Tensor:
        """Add a tensor."""
        return self.graph.add_tensor(Tensor(name, DType.FLOAT_32, (2, 3), kind))

    def step(self, op_type: str, *inputs: Tensor | None, package: str = "ops") -> Tensor:
        """Add a node and return its output."""
        name = self.graph.fresh_name(op_type)
        out = self.tensor(f"{name}.out")
        self.graph.add_node(Node(name, package, op_type, inputs, [out]))
        return out

    def number(self, given: float, dtype: type = np.float32) -> Tensor:
        """Add a constant of one element."""
        made = Tensor.static(self.graph.fresh_name("number"), np.full((1, 1), given, dtype))
        return self.graph.add_tensor(made)

    def find(self, pattern: Any, tensor: Tensor) -> list[dict[str, Tensor]]:
        """Return the named values of each match."""
        return [dict(m.values) for m in find(pattern, GraphView(self.graph, "ops"), tensor)]


@pytest.fixture
def net() -> Net:
    return Net()


def test_a_value_is_what_it_is_named(net: Net) -> None:
    y = net.step("Add", net.x, net.y)
    assert net.find(op("Add", X, Y), y) == [{"x": net.x, "y": net.y}]
    assert net.find(op("Add", X, X), y) == []
    assert net.find(op("Add", X, X), net.step("Add", net.x, net.x)) == [{"x": net.x}]


def test_a_named_value_may_have_a_pattern(net: Net) -> None:
    inner = net.step("Abs", net.x)
    outer = net.step("Add", inner, inner)
    pattern = op("Add", value("inner", op("Abs", X)), value("inner"))
    assert net.find(pattern, outer) == [{"inner": inner, "x": net.x}]
    assert net.find(pattern, net.step("Add", inner, net.step("Abs", net.x))) == []


def test_either_order_finds_both_readings(net: Net) -> None:
    y = net.step("Add", net.x, net.y)
    found = net.find(commutative("Add", X, Y), y)
    assert found == [{"x": net.x, "y": net.y}, {"x": net.y, "y": net.x}]


def test_a_later_part_decides_between_readings(net: Net) -> None:
    y = net.step("Mul", net.step("Abs", net.x), net.x)
    assert net.find(commutative("Mul", X, op("Abs", X)), y) == [{"x": net.x}]
    assert net.find(commutative("Mul", X, op("Abs", Y)), y) == [{"x": net.x, "y": net.x}]


def test_nodes_follow_the_data_flow_and_occur_once(net: Net) -> None:
    shared = net.step("Abs", net.x)
    y = net.step("Mul", net.step("Neg", shared), shared)
    pattern = op("Mul", op("Neg", op("Abs", X)), op("Abs", X))
    (match,) = find(pattern, GraphView(net.graph, "ops"), y)
    assert [node.op_type for node in match.nodes] == ["Abs", "Neg", "Mul"]


def test_an_op_without_patterns_of_inputs_may_read_anything(net: Net) -> None:
    y = net.step("Concat", net.x, None, net.y)
    assert net.find(op("Concat"), y) == [{}]
    assert net.find(op("Concat", X, Y), y) == []
    assert net.find(op("Concat", X, value("none"), Y), y) == []


def test_ops_of_other_packages_do_not_match(net: Net) -> None:
    assert net.find(op("Abs", X), net.step("Abs", net.x, package="other")) == []


def test_a_condition_on_the_node(net: Net) -> None:
    y = net.step("Abs", net.x)
    assert net.find(op("Abs", X, where=lambda node: node.name == "Abs"), y) == [{"x": net.x}]
    assert net.find(op("Abs", X, where=lambda node: node.name == "other"), y) == []


def test_alternatives(net: Net) -> None:
    pattern = either(op("Abs", X), op("Neg", Y))
    assert net.find(pattern, net.step("Abs", net.x)) == [{"x": net.x}]
    assert net.find(pattern, net.step("Neg", net.x)) == [{"y": net.x}]
    assert net.find(pattern, net.step("Exp", net.x)) == []


def test_numbers(net: Net) -> None:
    half = net.number(0.5001)
    y = net.step("Mul", half, net.x)
    assert net.find(op("Mul", number(0.5), X), y) == []
    assert net.find(op("Mul", number(0.5, near=1e-3), X), y) == [{"x": net.x}]
    assert net.find(op("Mul", any_number("n"), X), y) == [{"n": half, "x": net.x}]
    assert net.find(op("Mul", X, any_number("n")), y) == []


def test_what_may_change_or_is_not_one_float_is_no_number(net: Net) -> None:
    tuned = net.number(2)
    assert constant_number(tuned) == 2
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    pair = Tensor.static("pair", np.ones(2, np.float32))
    for tensor in (tuned, pair, net.number(2, np.int32), net.number(2, np.float16), net.x, None):
        assert constant_number(tensor) is None


@pytest.mark.parametrize("divides", [False, True])
@pytest.mark.parametrize("where", ["x", "y", "product"])
@pytest.mark.parametrize("swapped", [False, True])
def test_scaled_products_have_any_grouping(
    net: Net, divides: bool, where: str, swapped: bool
) -> None:
    def scaled(tensor: Tensor, name: str) -> Tensor:
        if name != where:
            return tensor
        if divides:
            return net.step("Div", tensor, net.number(8))
        return net.step("Mul", *((net.number(0.125), tensor)[:: -1 if swapped else 1]))

    factors = scaled(net.x, "x"), scaled(net.step("Abs", net.y), "y")
    result = scaled(net.step("Mul", *factors[:: -1 if swapped else 1]), "product")
    products = Products("Mul", "Div", near=0)
    assert net.find(products.scaled_of(X, op("Abs", Y), 0.125), result) == [
        {"x": net.x, "y": net.y}
    ]
    assert net.find(products.scaled_of(X, op("Abs", Y), 0.25), result) == []


@pytest.mark.parametrize(
    ("op_types", "expected"),
    [({"Add", "Exp"}, True), ({"Add", "Abs"}, True), ({"Exp", "Abs"}, False), ({"Add"}, False)],
)
def test_a_pattern_occurs_only_among_its_ops(op_types: set[str], expected: bool) -> None:
    pattern = commutative("Add", value("inner", either(op("Exp", X), op("Abs"))), any_number("n"))
    assert pattern.may_occur(op_types) is expected
