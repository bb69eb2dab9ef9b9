"""Formulas in importers: the nodes that they become, their names, and constants."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail_onnx import Importers
from dovetail_onnx._tables import Tables
from dovetail_onnx.operators._formula import operand, sqrt, value_of

MINE = Importers("test.formulas")


@MINE.importer("Hypotenuse", versions=(1,))
def hypotenuse(op):
    """Of two inputs, which may be constants."""
    a, b = value_of(op, 0), value_of(op, 1)
    return sqrt(a * a + b * b).emit()


@MINE.importer("UsedTwice", versions=(1,))
def used_twice(op):
    """A value that is used, and only then emitted."""
    doubled = operand(op, 0) * 2
    _ = (doubled + 1).tensor
    return doubled.emit()


@MINE.importer("Mirrored", versions=(1,))
def mirrored(op):
    """An array before the operator."""
    return (np.float32([10, 20]) - operand(op, 0)).emit()


@pytest.fixture
def importers(monkeypatch) -> None:
    """Have the operators of this file imported."""
    others = Tables.of

    def of(self, domain, op_type):
        return MINE if domain == MINE.domain else others(self, domain, op_type)

    monkeypatch.setattr(Tables, "of", of)


def one_node(model, op_type, feeds, known=None):
    names = [*feeds, *(known or {})]
    node = helper.make_node(op_type, names, ["y"], name="it", domain=MINE.domain)
    made = model([node], feeds, ["y"], known)
    made.opset_import.add(domain=MINE.domain, version=1)
    return made


def test_intermediate_values_are_named_after_their_operators(model, read, run, importers) -> None:
    feeds = {"a": np.float32([3, 5]), "b": np.float32([4, 12])}
    graph = read(one_node(model, "Hypotenuse", feeds))
    assert [node.name for node in graph.nodes] == ["it.mul", "it.mul_1", "it.add", "it"]
    assert [t.name for t in graph.outputs] == ["y"]
    np.testing.assert_array_equal(run(graph, feeds)["y"], [5, 13])


def test_an_array_may_come_first(model, read, run, importers) -> None:
    feeds = {"a": np.float32([3, 5])}
    graph = read(one_node(model, "Mirrored", feeds))
    assert [node.op_type for node in graph.nodes] == ["ElementWiseSubtract"]
    np.testing.assert_array_equal(run(graph, feeds)["y"], [7, 15])


def test_what_depends_only_on_constants_is_computed(model, read, run, importers) -> None:
    feeds, known = {"a": np.float32([3, 5])}, {"b": np.float32([4, 12])}
    graph = read(one_node(model, "Hypotenuse", feeds, known))
    assert [node.op_type for node in graph.nodes] == [
        "ElementWiseMultiply",
        "ElementWiseAdd",
        "ElementWiseSquareRoot",
    ]
    np.testing.assert_array_equal(run(graph, feeds)["y"], [5, 13])


def test_an_output_is_emitted_before_it_is_used(model, read, importers) -> None:
    with pytest.raises(AssertionError, match=r"'mul' of .*UsedTwice node 'it' was used before"):
        read(one_node(model, "UsedTwice", {"a": np.float32([1])}))
