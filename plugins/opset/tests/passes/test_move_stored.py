"""Moves of integers next to a Cast from or to fixed point."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    find_faults,
)
from dovetail_opset.build import add, static
from dovetail_opset.passes import MoveStored

Evaluate = Callable[..., Any]
FIXED, BYTES = DType.UFIXED_POINT_8, DType.UINT_8
X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def network(first: Spec, second: Spec, *, is_read: bool = False) -> Graph:
    """Return a graph of a Cast, two moves, a Cast back and two moves."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", first.dtype, first.shape, TensorKind.APP_WRITE))
    x.encoding = first.encoding
    cast = add(graph, "Cast", [x], name="cast", spec=second)
    if is_read:
        cast.kind = TensorKind.APP_READ
    turned = add(graph, "Transpose", [cast], name="turned", perm=[2, 0, 1])
    flat = Spec(second.dtype, (4, 6), second.encoding)
    add(graph, "Reshape", [turned], name="y", spec=flat).kind = TensorKind.APP_READ
    return graph


STORED = Spec(FIXED, X.shape, ScaleOffset(0.5, -3))


def test_stored_values_are_moved_before_they_become_integers(evaluate: Evaluate) -> None:
    graph = network(STORED, Spec(BYTES, X.shape))
    before = evaluate(graph, {"x": X})["y"]
    assert MoveStored().run(graph)
    assert not MoveStored().run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Transpose", "Reshape", "Cast"]
    assert all(graph.is_read(t) or t.kind is TensorKind.APP_READ for t in graph.tensors.values())
    types = [(n.inputs[0].dtype, n.outputs[0].dtype) for n in graph.nodes if n.inputs[0]]
    assert types == [(FIXED, FIXED), (FIXED, FIXED), (FIXED, BYTES)]
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], before)


def test_integers_are_moved_after_they_have_become_stored_values(evaluate: Evaluate) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", BYTES, X.shape, TensorKind.APP_WRITE))
    turned = add(graph, "Transpose", [x], name="turned", perm=[2, 0, 1])
    flat = add(graph, "Reshape", [turned], name="flat", spec=Spec(BYTES, (4, 6)))
    spec = Spec(FIXED, (4, 6), STORED.encoding)
    add(graph, "Cast", [flat], name="y", spec=spec).kind = TensorKind.APP_READ
    before = evaluate(graph, {"x": X})["y"]
    assert MoveStored().run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Cast", "Transpose", "Reshape"]
    assert all(graph.is_read(t) for t in graph.tensors.values() if t.name != "y")
    assert graph.tensor("y").spec == spec
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], before)


@pytest.mark.parametrize("border", [None, 0, 7, 255])
def test_a_border_of_integers_becomes_the_number_it_represents(
    evaluate: Evaluate, border: int | None
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", BYTES, X.shape, TensorKind.APP_WRITE))
    amount = np.array([(0, 0), (1, 2), (0, 1)], np.uint32)
    params: dict[str, Any] = {"scheme": 0, "pad_amount": amount}
    params |= {} if border is None else {"pad_constant_value": float(border)}
    padded = add(graph, "Pad", [x], name="padded", **params)
    spec = Spec(FIXED, padded.shape, STORED.encoding)
    add(graph, "Cast", [padded], name="y", spec=spec).kind = TensorKind.APP_READ
    before = evaluate(graph, {"x": X})["y"]
    assert MoveStored().run(graph)
    assert [node.op_type for node in graph.nodes] == ["Cast", "Pad"]
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], before)
    assert (before == (border or 0)).any()


@pytest.mark.parametrize(
    "graph",
    [
        network(STORED, Spec(BYTES, X.shape), is_read=True),
        network(STORED, Spec(DType.INT_32, X.shape)),
        network(
            Spec(DType.SFIXED_POINT_8, X.shape, AxisScaleOffset(1, np.ones(3, np.float32))),
            Spec(DType.INT_8, X.shape),
        ),
    ],
    ids=["output", "wider", "scales of an axis"],
)
def test_what_stays(graph: Graph) -> None:
    assert not MoveStored().run(graph)


@pytest.mark.parametrize("op_type", ["Argmax", "Argmin"])
def test_stored_values_are_ranked(evaluate: Evaluate, op_type: str) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", FIXED, X.shape, TensorKind.APP_WRITE))
    x.encoding = STORED.encoding
    cast = add(graph, "Cast", [x], name="cast", spec=Spec(BYTES, X.shape))
    cast.kind = TensorKind.APP_READ
    add(graph, op_type, [cast], name="y", axis=1).kind = TensorKind.APP_READ
    values = np.random.default_rng(4).permutation(X.ravel()).reshape(X.shape)
    before = evaluate(graph, {"x": values})
    assert MoveStored().run(graph)
    assert not MoveStored().run(graph)
    assert not find_faults(graph)
    (found,) = (node for node in graph.nodes if node.op_type == op_type)
    assert found.inputs == (x,)
    for name, wanted in before.items():
        np.testing.assert_array_equal(evaluate(graph, {"x": values})[name], wanted)


def test_rows_are_gathered_from_a_table_of_stored_values(evaluate: Evaluate) -> None:
    graph = Graph("net")
    indices = graph.add_tensor(Tensor("i", DType.INT_32, (3,), TensorKind.APP_WRITE))
    table = static(graph, "table", X[0])
    rows = add(graph, "Gather", [table, indices], name="rows", axis=0)
    spec = Spec(FIXED, rows.shape, STORED.encoding)
    add(graph, "Cast", [rows], name="y", spec=spec).kind = TensorKind.APP_READ
    feed = {"i": np.array([2, 0, 1], np.int32)}
    before = evaluate(graph, feed)["y"]
    assert MoveStored().run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Cast", "Gather"]
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_integers_that_select_elements_stay() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", FIXED, (3,), TensorKind.APP_WRITE))
    x.encoding = STORED.encoding
    cast = add(graph, "Cast", [x], name="cast", spec=Spec(BYTES, (3,)))
    table = static(graph, "table", X[0])
    add(graph, "Gather", [table, cast], name="y", axis=0).kind = TensorKind.APP_READ
    assert not MoveStored().run(graph)


def test_integers_that_others_read_stay() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", BYTES, X.shape, TensorKind.APP_WRITE))
    turned = add(graph, "Transpose", [x], name="turned", perm=[2, 0, 1])
    spec = Spec(FIXED, turned.shape, STORED.encoding)
    for name in ("y", "z"):
        add(graph, "Cast", [turned], name=name, spec=spec).kind = TensorKind.APP_READ
    assert not MoveStored().run(graph)
