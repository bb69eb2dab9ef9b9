"""Context tensors: exchanged between graphs without copies, and shared constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from updating_backend import SUM_OPS, UpdatingBackend

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, GraphError, OpError
from dovetail.ir import DType, ScaleOffset, TensorKind, pack

F32 = DType.FLOAT_32
X = np.arange(3, dtype=np.float32)
ONE = np.ones(3, np.float32)


@pytest.fixture
def context() -> Iterator[runtime.Context]:
    with runtime.Backend.create(UpdatingBackend, ops=SUM_OPS) as backend:
        yield backend.create_context()


def app(graph: runtime.Graph, name: str, kind: TensorKind) -> runtime.Tensor:
    return graph.create_tensor(name, F32, (3,), kind)


def add(
    graph: runtime.Graph, one: runtime.Tensor, other: runtime.Tensor, out: runtime.Tensor
) -> None:
    graph.add_node(f"to {out.name}", "test.sums", "Add", [one, other], [out])


def writer(context: runtime.Context, shared: runtime.Tensor) -> runtime.Graph:
    """shared = x + x."""
    graph = context.create_graph("writer")
    x = app(graph, "x", TensorKind.APP_WRITE)
    add(graph, x, x, shared)
    return graph


def reader(context: runtime.Context, shared: runtime.Tensor) -> runtime.Graph:
    """y = shared + x."""
    graph = context.create_graph("reader")
    x = app(graph, "x", TensorKind.APP_WRITE)
    add(graph, shared, x, app(graph, "y", TensorKind.APP_READ))
    return graph


def test_one_graph_writes_what_another_reads(context: runtime.Context) -> None:
    shared = context.create_tensor("s", F32, (3,))
    graphs = writer(context, shared), reader(context, shared)
    for graph in graphs:
        graph.finalize()
        assert [t.name for t in graph.inputs] == ["x"]
    assert [[t.name for t in graph.outputs] for graph in graphs] == [[], ["y"]]
    first, second = graphs
    values = shared.values()
    assert first.execute({"x": X}) == {}
    np.testing.assert_array_equal(values, 2 * X)  # the same memory
    np.testing.assert_array_equal(second.execute({"x": ONE})["y"], 2 * X + 1)
    taken = {"y": np.empty_like(X)}
    assert second.execute({"x": X}, taken).keys() == {"y"}
    np.testing.assert_array_equal(taken["y"], 3 * X)
    run = first.execute_async({"x": ONE}, {})
    assert run.wait(20)
    np.testing.assert_array_equal(values, 2 * ONE)


def test_both_graphs_bind_the_array_of_the_context(
    context: runtime.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = context.create_tensor("s", F32, (3,))
    bound: list[object] = []
    for graph in (writer(context, shared), reader(context, shared)):
        graph.finalize()
        prepared = graph._prepared
        run = prepared.run  # type: ignore[union-attr]

        def spy(inputs: Any, outputs: Any, control: Any, run: Any = run) -> None:
            bound.append({**inputs, **outputs}["s"])
            run(inputs, outputs, control)

        monkeypatch.setattr(prepared, "run", spy)
        graph.execute({"x": X})
    assert bound[0] is bound[1] is shared.array


def test_a_graph_reads_what_it_has_written(context: runtime.Context) -> None:
    shared = context.create_tensor("s", F32, (3,))
    graph = writer(context, shared)
    add(graph, shared, shared, app(graph, "y", TensorKind.APP_READ))
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], 4 * X)
    np.testing.assert_array_equal(shared.values(), 2 * X)


def test_initial_values_are_copied_and_read_only(context: runtime.Context) -> None:
    given = ONE.copy()
    shared = context.create_tensor("s", F32, (3,), data=given)
    given[:] = 9
    graph = reader(context, shared)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 1)
    with pytest.raises(ValueError, match="read-only"):
        shared.values()[0] = 1
    assert not context.create_tensor("zeros", F32, (3,)).values().any()
    packed = pack(np.array([-8, 7, 3]), DType.SFIXED_POINT_4)
    four = context.create_tensor("4", DType.SFIXED_POINT_4, (3,), data=packed)
    assert four.values().tolist() == [-8, 7, 3]


def test_a_shared_constant_and_its_update_reach_every_graph(context: runtime.Context) -> None:
    kind = TensorKind.UPDATEABLE_STATIC
    shared = context.create_tensor("w", F32, (3,), kind, data=ONE)
    graphs = []
    for name in ("a", "b"):
        graph = context.create_graph(name)
        x = app(graph, "x", TensorKind.APP_WRITE)
        add(graph, x, shared, app(graph, "y", TensorKind.APP_READ))
        graphs.append(graph)
    graphs[0].finalize()
    assert graphs[0].ir.tensor("w").data is graphs[1].ir.tensor("w").data
    context.update_tensor(shared, 5 * ONE)
    for graph in graphs:
        assert not graph.is_finalized
        graph.finalize()
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 5)
    with pytest.raises(GraphError, match="expected data of shape"):
        context.update_tensor(shared, np.ones(4, np.float32))
    assert all(graph.is_finalized for graph in graphs)
    with pytest.raises(GraphError, match="not a tensor of this graph"):
        graphs[0].update_tensor(shared, ONE)
    with pytest.raises(BackendError, match="do not exchange its values"):
        shared.values()


def test_names_are_unique(context: runtime.Context) -> None:
    shared = context.create_tensor("s", F32, (3,))
    with pytest.raises(GraphError, match="duplicate tensor name 's'") as caught:
        context.create_tensor("s", F32, (3,))
    assert caught.value.code == "TENSOR_ERROR_ALREADY_EXISTS"
    graph = context.create_graph("net")
    x = app(graph, "s", TensorKind.APP_WRITE)
    with pytest.raises(GraphError, match="duplicate tensor name 's'"):
        add(graph, x, shared, app(graph, "y", TensorKind.APP_READ))


def test_a_tensor_belongs_to_its_context(context: runtime.Context) -> None:
    other = context.backend.create_context()
    foreign = other.create_tensor("s", F32, (3,), TensorKind.UPDATEABLE_STATIC, data=ONE)
    with pytest.raises(GraphError, match="belongs to another context") as caught:
        writer(context, foreign)
    assert caught.value.code == "GRAPH_ERROR_INVALID_TENSOR"
    with pytest.raises(GraphError, match="belongs to another context"):
        context.update_tensor(foreign, ONE)
    other.free()
    with pytest.raises(BackendError) as freed:
        reader(context, foreign)
    assert freed.value.code == "TENSOR_ERROR_INVALID_HANDLE"


def test_a_tensor_read_from_another_graph_is_not_written(context: runtime.Context) -> None:
    shared = context.create_tensor("s", F32, (3,))
    graph = reader(context, shared)
    before = dict(graph.ir.tensors)
    with pytest.raises(GraphError, match="already read with the values of another graph"):
        add(graph, shared, shared, shared)
    assert graph.ir.tensors == before
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X)


def test_a_refused_node_leaves_no_tensor_behind(context: runtime.Context) -> None:
    shared = context.create_tensor("s", F32, (4,))
    graph = context.create_graph("net")
    x, y = app(graph, "x", TensorKind.APP_WRITE), app(graph, "y", TensorKind.APP_READ)
    with pytest.raises(OpError):
        graph.add_node("n", "test.sums", "Unknown", [x, shared], [y])
    assert list(graph.ir.tensors) == ["x", "y"]
    add(graph, x, x, y)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], 2 * X)


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"kind": TensorKind.NATIVE}, "is NATIVE; allowed in a context: APP_READWRITE, STATIC"),
        ({"kind": TensorKind.STATIC}, "is STATIC but has no data"),
        ({"shape": (-1,)}, "has the impossible shape (-1,)"),
        ({"dtype": DType.UNDEFINED}, "has no data type"),
        ({"dtype": DType.STRING}, "holds text"),
        ({"encoding": ScaleOffset(1.0)}, "FLOAT_32 is not a fixed-point type"),
        ({"data": pack(np.ones(2), F32)}, "has 8 bytes of initial values, but takes 12"),
    ],
)
def test_impossible_tensors_are_refused(
    how: dict[str, Any], fault: str, context: runtime.Context
) -> None:
    with pytest.raises(GraphError) as caught:
        context.create_tensor(**{"name": "s", "dtype": F32, "shape": (3,)} | how)
    assert caught.value.code == "TENSOR_ERROR_INVALID_TENSOR_PARAM"
    assert fault in caught.value.problems[0].message
    context.create_tensor("s", F32, (3,))  # the name is still free


def test_memory_that_does_not_exist_is_an_error(context: runtime.Context) -> None:
    with pytest.raises(BackendError, match="cannot allocate") as caught:
        context.create_tensor("s", F32, (2**31, 2**31))
    assert caught.value.code == "CONTEXT_ERROR_MEM_ALLOC"


def test_an_input_of_the_application_must_not_be_the_shared_memory(
    context: runtime.Context,
) -> None:
    shared = context.create_tensor("s", F32, (3,))
    graph = writer(context, shared)
    graph.finalize()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": shared.values()})
    assert "shares memory with input 'x'" in str(caught.value)


def test_models_are_composed_with_tensors_of_the_context(context: runtime.Context) -> None:
    first = context.create_tensor("s", F32, (3,))
    graphs = {g.name: g.ir for g in (writer(context, first), reader(context, first))}
    model = Model(graphs, Producer("test", "1"), {"test.sums": "1"})
    other = context.backend.create_context()
    shared = other.create_tensor("s", F32, (3,))
    one, two = other.compose(model, {"writer": ["s"], "reader": ["s"]})
    for graph in (one, two):
        graph.finalize()
        assert [t.name for t in graph.inputs] == ["x"]
        assert graph.shared_names == ("s",)
    one.execute({"x": X})
    np.testing.assert_array_equal(shared.values(), 2 * X)
    np.testing.assert_array_equal(two.execute({"x": ONE})["y"], 2 * X + 1)
    again = context.backend.create_context()
    with pytest.raises(GraphError, match="context tensor 's' not found"):
        again.compose(model, {"reader": ["s"]})
    assert not again.graphs
