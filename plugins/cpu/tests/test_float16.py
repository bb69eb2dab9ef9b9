"""Graphs of float16 values are computed in float32, and rounded where they leave the graph."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail as dt
from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import NOTHING, CheckedGraph, Observed, OpRegistry, check_ops
from dovetail.plugins.ops import installed_ops
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)
HALF, FLOAT = DType.FLOAT_16, DType.FLOAT_32
SHAPE = (1, 6, 6, 3)
X = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float16)
ULP = np.finfo(np.float16).eps


def taken(graph: Graph, name: str = "x", shape=SHAPE, dtype=HALF) -> Tensor:
    return graph.add_tensor(Tensor(name, dtype, shape, TensorKind.APP_WRITE))


def convolved(dtype=HALF, kind=TensorKind.STATIC) -> Graph:
    """A convolution, Relu and Sigmoid, with weights of this kind."""
    graph, rng = Graph("net"), np.random.default_rng(2)
    x = taken(graph, dtype=dtype)
    values = rng.standard_normal((3, 3, 3, 4)).astype(np.float16)
    weights = static(graph, "w", values.astype(dtype.storage))
    weights.kind = kind
    pads = {"stride": [1, 1], "pad_amount": [[1, 1], [1, 1]]}
    y = add(graph, "Conv2d", [x, weights], name="conv", **pads)
    y = add(graph, "Relu", [y], name="relu")
    add(graph, "Sigmoid", [y], name="y").kind = TensorKind.APP_READ
    return graph


def adapted(graph: Graph, observed: Observed = NOTHING) -> CheckedGraph:
    return CpuBackend(OPS, CpuOptions()).adapted(check_ops(graph, OPS, observed))


def nodes(graph: CheckedGraph) -> list[str]:
    return [view.node.name for view in graph.nodes]


def test_only_what_enters_and_leaves_is_cast() -> None:
    made = adapted(convolved())
    assert nodes(made) == ["x.float32.cast", "conv", "relu", "y", "y.cast"]
    assert [t.name for t in (*made.inputs, *made.outputs)] == ["x", "y"]
    assert {t.dtype for t in (*made.inputs, *made.outputs)} == {HALF}
    inside = [t for view in made.nodes[1:-1] for t in (*view.node.inputs, *view.node.outputs)]
    assert {t.dtype for t in inside if t is not None} == {FLOAT}


def test_nodes_of_the_user_may_have_the_names_of_casts() -> None:
    graph = Graph("net")
    y = taken(graph)
    for name in ("y.cast", "x.float32.cast", "y"):
        y = add(graph, "Relu", [y], name=name)
    y.kind = TensorKind.APP_READ
    own = ["y.cast", "x.float32.cast", "y"]
    assert nodes(adapted(graph)) == ["x.float32.cast_", *own, "y.cast_"]


def test_results_are_those_of_float32(run_graph, evaluate) -> None:
    half, wide = convolved(), convolved(FLOAT)
    ran = run_graph(half, {"x": X})
    assert not ran.by_reference
    assert len(ran.prepared.steps) == 4  # the Relu is part of the convolution's
    wanted = evaluate(wide, {"x": X.astype(np.float32)})["y"]
    np.testing.assert_allclose(ran.outputs["y"], wanted, rtol=ULP)


def test_numbers_beyond_float16_stay_finite_inside(run_graph) -> None:
    graph = Graph("large")
    y = add(graph, "ElementWiseMultiply", [x := taken(graph), x], name="square")
    y.kind = TensorKind.APP_READ
    add(graph, "ElementWiseDivide", [y, x], name="y").kind = TensorKind.APP_READ
    values = np.full(SHAPE, 300, np.float16)
    found = run_graph(graph, {"x": values}).outputs
    assert np.isinf(found["square"]).all()
    np.testing.assert_array_equal(found["y"], values)


def test_observed_tensors_have_their_type() -> None:
    made = adapted(convolved(), Observed(frozenset(["relu"])))
    assert nodes(made)[2:5] == ["relu", "relu.cast", "y"]
    (seen,) = made.nodes[3].node.outputs
    assert (seen.name, seen.dtype) == ("relu", HALF)


def test_casts_between_the_types_disappear(run_graph) -> None:
    graph = Graph("casts")
    x = taken(graph, dtype=FLOAT)
    down = add(graph, "Cast", [x], name="down", spec=Spec(HALF, SHAPE))
    y = add(graph, "Relu", [down], name="relu")
    up = add(graph, "Cast", [y], name="up", spec=Spec(FLOAT, SHAPE))
    add(graph, "Sigmoid", [up], name="y").kind = TensorKind.APP_READ
    add(graph, "Cast", [up], name="again", spec=Spec(HALF, SHAPE)).kind = TensorKind.APP_READ
    made = adapted(graph)
    assert nodes(made) == ["relu", "y", "again"]
    assert made.view(made.nodes[0].node).node.inputs == (x,)
    values = X.astype(np.float32) / 3
    found = run_graph(graph, {"x": values}).outputs
    np.testing.assert_array_equal(found["again"], np.maximum(values, 0).astype(np.float16))


def test_graphs_of_float32_stay_as_they_are() -> None:
    checked = check_ops(convolved(FLOAT), OPS)
    assert CpuBackend(OPS, CpuOptions()).adapted(checked) is checked


def test_moves_alone_stay_as_they_are() -> None:
    graph = Graph("moves")
    y = add(graph, "Transpose", [taken(graph)], name="turn", perm=[0, 3, 1, 2])
    add(graph, "Squeeze", [y], name="y", axes=[0]).kind = TensorKind.APP_READ
    assert nodes(adapted(graph)) == ["turn", "y"]


def test_updateable_values_stay_as_they_are(run_graph, evaluate) -> None:
    graph = convolved(kind=TensorKind.UPDATEABLE_STATIC)
    made = adapted(graph)
    assert nodes(made) == ["conv", "conv.float32.cast", "relu", "y", "y.cast"]
    assert made.graph.tensor("w") is graph.tensor("w")
    wanted = evaluate(graph, {"x": X})["y"]
    np.testing.assert_allclose(run_graph(graph, {"x": X}).outputs["y"], wanted, rtol=2 * ULP)


def test_names_that_are_taken_are_avoided() -> None:
    graph = convolved()
    taken(graph, "x.float32", dtype=FLOAT)
    assert nodes(adapted(graph))[0] == "x.float32_.cast"


@pytest.mark.parametrize("kind", [TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC])
def test_contexts_restore_them(tmp_path, kind) -> None:
    Model.of(convolved(kind=kind), producer=Producer("test", "1"), registry=installed_ops()).save(
        tmp_path / "net.dvt"
    )
    with dt.Session(tmp_path / "net.dvt") as session:
        wanted = session.run({"x": X})["y"]
        session.save_context(tmp_path / "net.bin")
    with dt.Session.from_context(tmp_path / "net.bin") as session:
        found = session.run({"x": X})["y"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("is_restored", [False, True])
def test_updates_of_float16_weights(is_restored: bool) -> None:
    """Fresh weights give what a graph that has them from the start gives."""
    graph, fresh = (
        convolved(kind=TensorKind.UPDATEABLE_STATIC),
        convolved(kind=TensorKind.UPDATEABLE_STATIC),
    )
    weights = np.random.default_rng(9).standard_normal((3, 3, 3, 4)).astype(np.float16)
    fresh.tensor("w").data = static(Graph("other"), "w", weights).data
    found = []
    for each in (graph, fresh):
        model = Model.of(each, producer=Producer("test", "1"), registry=installed_ops())
        with runtime.Backend.create("cpu") as backend:
            context = backend.create_context()
            (composed,) = context.compose(model)
            composed.finalize()
            if is_restored:
                context = backend.create_context_from_binary(context.get_binary())
                composed = context.retrieve_graph("net")
            if each is graph:
                composed.update_tensor(composed.retrieve_tensor("w"), weights)
                composed.finalize()
            found.append(composed.execute({"x": X})["y"])
    np.testing.assert_array_equal(*found)
