"""Types of 64 bits in 32 bits, whatever their values are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Node, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import NARROWER, NarrowTypes, RemoveIdentities

Evaluate = Callable[..., Any]
F32, F64 = DType.FLOAT_32, DType.FLOAT_64


def network(wide: DType, value: float, shape: tuple[int, ...] = (2, 3)) -> Graph:
    """Return a graph that adds a constant to an input of 32 bits in 64 bits."""
    graph, narrow = Graph("net"), NARROWER[wide]
    x = graph.add_tensor(Tensor("x", narrow, shape, TensorKind.APP_WRITE))
    x = add(graph, "Cast", [x], name="wide", spec=Spec(wide, shape))
    x = add(graph, "ElementWiseAdd", [x, static(graph, "c", np.array(value), wide)], name="sum")
    y = Tensor("y", narrow, shape, TensorKind.APP_READ)
    add(graph, "Cast", [x], name="narrow", outputs=y, spec=Spec(narrow, shape))
    return graph


@pytest.mark.parametrize("wide", NARROWER)
def test_inner_tensors_have_32_bits(evaluate: Evaluate, wide: DType) -> None:
    graph = network(wide, 3)
    feed = {"x": np.arange(6).reshape(2, 3).astype(NARROWER[wide].storage)}
    before = evaluate(graph, feed)["y"]
    assert NarrowTypes().run(graph)
    assert not NarrowTypes().run(graph)
    assert {t.dtype for t in graph.tensors.values()} == {NARROWER[wide]}
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)
    RemoveIdentities().run(graph)
    assert [node.op_type for node in graph.nodes] == ["ElementWiseAdd"]


@pytest.mark.parametrize(
    ("wide", "value", "wanted"),
    [
        (DType.INT_64, -(2**40), -(2**31)),
        (DType.UINT_64, 2**40, 2**32 - 1),
        (F64, -1.7e308, np.finfo(np.float32).min),
        (F64, np.inf, np.inf),
    ],
)
def test_constants_beyond_the_type_become_its_limits(
    wide: DType, value: float, wanted: float
) -> None:
    graph = network(wide, value)
    assert NarrowTypes().run(graph)
    assert graph.tensor("c").values() == wanted


def test_limits_of_indices_are_removed() -> None:
    graph = network(DType.INT_64, 100)
    (total,) = graph.node("sum").outputs
    lowest = static(graph, "lowest", np.array(-(2**31)), DType.INT_64)
    limited = add(graph, "ElementWiseMaximum", [total, lowest], name="limited")
    cast = graph.node("narrow")
    graph.set_inputs(cast, [limited])
    assert NarrowTypes().run(graph)
    RemoveIdentities().run(graph)
    assert [node.op_type for node in graph.nodes] == ["ElementWiseAdd"]


def test_a_cast_to_an_output_casts_twice(evaluate: Evaluate) -> None:
    """A backend that lacks 64 bits may write them from 32 bits only."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", F32, (3,), TensorKind.APP_WRITE))
    y = Tensor("y", DType.INT_64, (3,), TensorKind.APP_READ)
    add(graph, "Cast", [x], name="cast", outputs=y, spec=y.spec)
    feed = {"x": np.array([-1.5, 2.5, 1e6], np.float32)}
    before = evaluate(graph, feed)["y"]
    assert NarrowTypes().run(graph)
    assert [(n.op_type, n.outputs[0].dtype) for n in graph.nodes] == [
        ("Cast", DType.INT_32),
        ("Cast", DType.INT_64),
    ]
    assert not NarrowTypes().run(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_inputs_and_what_needs_them_stay() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", F64, (2,), TensorKind.APP_WRITE))
    half = static(graph, "half", np.array(0.5), F64)
    y = Tensor("y", F32, (2,), TensorKind.APP_READ)
    product = add(graph, "ElementWiseMultiply", [x, half], name="product")
    add(graph, "Cast", [product], name="cast", outputs=y, spec=Spec(F32, (2,)))
    assert not NarrowTypes().run(graph)


@pytest.mark.parametrize("is_read", [False, True])
def test_results_are_cast_to_the_types_of_outputs(evaluate: Evaluate, is_read: bool) -> None:
    graph = network(DType.INT_64, 3)
    (total,) = graph.node("sum").outputs
    total.kind = TensorKind.APP_READ
    if not is_read:
        graph.remove_node(graph.node("narrow"))
        graph.remove_tensor(graph.tensor("y"))
    feed = {"x": np.arange(6, dtype=np.int32).reshape(2, 3)}
    before = evaluate(graph, feed)
    assert NarrowTypes().run(graph)
    assert not find_faults(graph)
    assert graph.node("sum").outputs[0].dtype is DType.INT_32
    for y in graph.outputs:
        np.testing.assert_array_equal(evaluate(graph, feed)[y.name], before[y.name], strict=True)


def test_outputs_that_inputs_keep_wide() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", F64, (2,), TensorKind.APP_WRITE))
    add(graph, "ElementWiseNeg", [x], name="y").kind = TensorKind.APP_READ
    assert not NarrowTypes().run(graph)
    assert [(n.op_type, n.outputs[0].name) for n in graph.nodes] == [("ElementWiseNeg", "y")]


def test_other_types_stay() -> None:
    assert not NarrowTypes([F64]).run(network(DType.INT_64, 3))


@pytest.mark.parametrize("op_type", ["ElementWiseNeg", "Cast"])
def test_inputs_and_outputs_become_narrow_if_asked(op_type: str) -> None:
    def network() -> Graph:
        graph = Graph("net")
        x = graph.add_tensor(Tensor("x", F64, (2,), TensorKind.APP_WRITE))
        y = Tensor("y", F64, (2,), TensorKind.APP_READ)
        add(graph, op_type, [x], name="node", outputs=y, spec=Spec(F64, (2,)))
        return graph

    graph = network()
    assert not NarrowTypes().run(graph)
    assert NarrowTypes(interfaces=("x", "y")).run(graph)
    assert not NarrowTypes(interfaces=("x", "y")).run(graph)
    assert {t.dtype for t in graph.tensors.values()} == {F32}
    assert not find_faults(graph)


@pytest.mark.parametrize("op_type", ["ElementWiseNeg", "Cast"])
def test_inputs_are_cast_if_asked(op_type: str, evaluate: Evaluate) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.INT_64, (3,), TensorKind.APP_WRITE))
    y = add(graph, op_type, [x], name="node", spec=Spec(DType.INT_64, (3,)))
    z = Tensor("z", F32, (3,), TensorKind.APP_READ)
    add(graph, "Cast", [y], name="real", outputs=z, spec=z.spec)
    feed = {"x": np.array([-3, 0, 5])}
    before = evaluate(graph, feed)["z"]
    narrow = NarrowTypes(cast_inputs=True)
    assert narrow.run(graph)
    assert not narrow.run(graph)
    assert graph.tensor("x").dtype is DType.INT_64
    (cast,) = graph.consumers(graph.tensor("x"))
    assert (cast.op_type, cast.outputs[0].dtype) == ("Cast", DType.INT_32)
    np.testing.assert_array_equal(evaluate(graph, feed)["z"], before)


def test_a_cast_of_an_input_that_nothing_reads_narrow_is_removed() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", F64, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", F64, (2,), TensorKind.APP_READ))
    graph.add_node(Node("node", "acme", "Shrink", [x], [y]))
    assert not NarrowTypes(cast_inputs=True).run(graph)
    assert [node.op_type for node in graph.nodes] == ["Shrink"]
