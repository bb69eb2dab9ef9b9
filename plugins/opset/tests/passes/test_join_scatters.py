"""Scatters to known slices: one join after any number of them, with the same elements."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import JoinScatters

Evaluate = Callable[..., Any]
SHAPE = (4, 5, 3)


def network(dtype: DType = DType.FLOAT_32, **how: Any) -> Graph:
    graph = Graph("net")
    graph.add_tensor(Tensor("x", dtype, SHAPE, TensorKind.APP_WRITE, **how))
    return graph


def assign(graph: Graph, x: Tensor, key: Any, update: Tensor | None = None) -> Tensor:
    """Add a ScatterNd that assigns to `x[key]`, as a frontend has it after folding."""
    at = np.indices(x.shape)[(slice(None), *key)]
    rows = np.moveaxis(at, 0, -1).astype(np.int32)
    name = f"at{len(graph.tensors)}"
    if update is None:
        spec = x.spec
        update = Tensor(f"{name}.new", spec.dtype, rows.shape[:-1], TensorKind.APP_WRITE)
        update.encoding = spec.encoding
        graph.add_tensor(update)
    indices = static(graph, name, rows)
    return add(graph, "ScatterNd", [x, indices, update], name=f"{name}.set", spec=x.spec)


def feeds(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {t.name: rng.random(t.shape, np.float32) for t in graph.inputs}


def ops(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def check(graph: Graph, evaluate: Evaluate) -> None:
    given = feeds(graph)
    before = evaluate(graph, given)
    assert JoinScatters().run(graph)
    assert not find_faults(graph)
    after = evaluate(graph, given)
    for tensor in graph.outputs:
        np.testing.assert_array_equal(after[tensor.name], before[tensor.name])


def spans(n: int) -> st.SearchStrategy[slice]:
    ends = st.tuples(st.integers(0, n - 1), st.integers(1, n)).filter(lambda e: e[0] < e[1])
    return ends.map(lambda e: slice(*e))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.data(), st.booleans(), st.sampled_from(["", "read", "kept"])
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_assignments_in_a_row(evaluate: Evaluate, steps: Any) -> None:
    graph = network()
    x = graph.tensor("x")
    for axis, data, is_square, use in steps:
        key = [slice(None)] * 3
        key[axis] = data.draw(spans(SHAPE[axis]))
        if is_square:
            other = (axis + 1) % 3
            key[other] = data.draw(spans(SHAPE[other]))
        x = assign(graph, x, key)
        if use == "read":
            ranges = [(s.start, s.stop, 1) for s in (data.draw(spans(n)) for n in SHAPE)]
            y = add(graph, "StridedSlice", [x], name=f"read{len(graph.tensors)}", ranges=ranges)
            y.kind = TensorKind.APP_READ
        elif use == "kept":
            y = add(graph, "Relu", [x], name=f"kept{len(graph.tensors)}")
            y.kind = TensorKind.APP_READ
    x.kind = TensorKind.APP_READ
    check(graph, evaluate)
    assert "ScatterNd" not in ops(graph)


def test_a_loop_over_steps_becomes_one_concat(evaluate: Evaluate) -> None:
    graph = network()
    x = graph.tensor("x")
    for t in range(1, SHAPE[1]):
        row = [(0, 4, 1), (t - 1, t, 1), (0, 3, 1)]
        last = add(graph, "StridedSlice", [x], name=f"last{t}", ranges=row, shrink_axes=2)
        new = add(graph, "Tanh", [last], name=f"new{t}")
        x = assign(graph, x, (slice(None), t, slice(None)), new)
    x.kind = TensorKind.APP_READ
    check(graph, evaluate)
    assert ops(graph).count("Concat") == 1
    reads = [n for n in graph.nodes if n.op_type == "StridedSlice" and n.inputs[0].name == "x"]
    assert len(reads) == 2  # the first step, and what is left of x


def test_elements_along_an_axis(evaluate: Evaluate) -> None:
    graph = network()
    at = np.broadcast_to(np.array([-3, -2], np.int32)[:, None], (3, 2, 3))
    new = graph.add_tensor(Tensor("new", DType.FLOAT_32, (3, 2, 3), TensorKind.APP_WRITE))
    ins = [graph.tensor("x"), static(graph, "at", at), new]
    y = Tensor("y", DType.FLOAT_32, SHAPE, TensorKind.APP_READ)
    add(graph, "ScatterElements", ins, name="set", outputs=y, axis=1)
    check(graph, evaluate)
    assert "ScatterElements" not in ops(graph)


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), slice(0, 5, 2)),
        (slice(None), slice(None, None, -1)),
        (slice(0, 2), slice(0, 2), slice(0, 2)),
    ],
    ids=["steps", "backwards", "three axes"],
)
def test_what_is_no_join_stays(key: Any) -> None:
    graph = network()
    assign(graph, graph.tensor("x"), key).kind = TensorKind.APP_READ
    assert not JoinScatters().run(graph)


@pytest.mark.parametrize("what", ["computed", "updateable", "added", "out of range"])
def test_unknown_indices_and_sums_stay(what: str) -> None:
    graph = network()
    rows = np.array([[1], [9 if what == "out of range" else 2]], np.int32)
    at = static(graph, "at", rows)
    if what == "updateable":
        at.kind = TensorKind.UPDATEABLE_STATIC
    if what == "computed":
        at = graph.add_tensor(Tensor("given", DType.INT_32, (2, 1), TensorKind.APP_WRITE))
    new = graph.add_tensor(Tensor("new", DType.FLOAT_32, (2, 5, 3), TensorKind.APP_WRITE))
    y = Tensor("y", DType.FLOAT_32, SHAPE, TensorKind.APP_READ)
    ins = [graph.tensor("x"), at, new]
    add(graph, "ScatterNd", ins, name="set", outputs=y, reduction=int(what == "added"))
    assert not JoinScatters().run(graph)


@pytest.mark.parametrize("by_axis", [False, True])
def test_one_encoding_is_kept(by_axis: bool) -> None:
    grid = AxisScaleOffset(2, np.ones(3, np.float32)) if by_axis else ScaleOffset(0.5)
    graph = network(DType.UFIXED_POINT_8, encoding=grid)
    assign(graph, graph.tensor("x"), (slice(1, 2),)).kind = TensorKind.APP_READ
    assert JoinScatters().run(graph) is not by_axis


def test_sources_of_all_assignments_are_kept() -> None:
    graph = network()
    first = assign(graph, graph.tensor("x"), (slice(0, 1),))
    last = assign(graph, first, (slice(1, 2),))
    last.kind = TensorKind.APP_READ
    names = [node.name for node in graph.nodes]
    for node in graph.nodes:
        node.sources = (node.name,)
    assert JoinScatters().run(graph)
    (concat,) = (node for node in graph.nodes if node.op_type == "Concat")
    assert list(concat.sources) == names
