"""Scattering by index against loops over the updates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_inputs import draw_indices

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Shape, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.ops.scatter import ElementsReduction, NdReduction

Run = Callable[..., Any]
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "NONE": lambda old, new: new,
    "ADD": lambda old, new: old + new,
    "MUL": lambda old, new: old * new,
    "MAX": max,
}


def whole(data: Any, shape: Shape) -> Array:
    """Small whole numbers: their sums and products are exact in whatever order."""
    seed = data.draw(st.integers(0, 99))
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize("reduction", ElementsReduction)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), st.data())
def test_scatter_elements(
    run_op: Run, reduction: ElementsReduction, shape: Shape, data: Any
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    wanted = [data.draw(st.integers(0, n)) for n in shape]
    wanted[axis] = data.draw(st.integers(0, 4)) if shape[axis] else 0
    indices = draw_indices(data, tuple(wanted), max(shape[axis], 1))
    x, updates = whole(data, shape), whole(data, tuple(wanted))
    before = x.copy()
    y = run_op("ScatterElements", x, indices, updates, axis=axis, reduction=reduction)
    np.testing.assert_array_equal(x, before)
    # in the order of the updates, so that the last one of a place stays
    for place, update in np.ndenumerate(updates):
        target = list(place)
        target[axis] = indices[place]
        before[tuple(target)] = REDUCE[reduction.name](before[tuple(target)], update)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("reduction", NdReduction)
@given(shapes, shapes, shapes, st.data())
def test_scatter_nd(
    run_op: Run, reduction: NdReduction, inner: Shape, rows: Shape, slices: Shape, data: Any
) -> None:
    columns = [draw_indices(data, rows, n) for n in inner]
    indices = np.stack([np.zeros(rows, np.int32), *columns], axis=-1)[..., 1:]
    x, updates = whole(data, (*inner, *slices)), whole(data, (*rows, *slices))
    before = x.copy()
    y = run_op("ScatterNd", x, indices, updates, reduction=reduction)
    np.testing.assert_array_equal(x, before)
    for place in np.ndindex(*rows):
        at = tuple(indices[place])
        before[at] = REDUCE[reduction.name](before[at], updates[place])
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16, np.float64])
def test_types_that_compute(run_op: Run, dtype: type) -> None:
    x, at = np.array([1, 2], dtype), np.array([1, 1], np.uint32)
    updates = np.array([3, 4], dtype)
    for reduction, want in zip(ElementsReduction, (4, 9, 24, 4), strict=True):
        y = run_op("ScatterElements", x, at, updates, reduction=reduction)
        np.testing.assert_array_equal(y, np.array([1, want], dtype), strict=True)


def test_bools_are_replaced(run_op: Run) -> None:
    x, at = np.array([True, True]), np.array([[0]], np.int32)
    np.testing.assert_array_equal(run_op("ScatterNd", x, at, np.array([False])), [False, True])


def test_nothing_to_update(run_op: Run) -> None:
    x = np.ones((2, 3), np.float32)
    none = np.zeros((0, 1), np.int32)
    np.testing.assert_array_equal(run_op("ScatterNd", x, none, np.ones((0, 3), np.float32)), x)
    empty = np.ones((0, 3), np.float32)
    assert run_op("ScatterNd", empty, none, empty).shape == (0, 3)


@pytest.mark.parametrize(("reduction", "want"), [("NONE", [12, 30]), ("ADD", [12, 40])])
def test_fixed_point_computes_with_real_values(
    evaluate: Callable[..., Any], reduction: str, want: list[int]
) -> None:
    graph, code = Graph("g"), ScaleOffset(0.5, -10)
    u8 = DType.UFIXED_POINT_8
    x, u = (
        graph.add_tensor(Tensor(n, u8, (k,), TensorKind.APP_WRITE, encoding=code))
        for n, k in (("x", 2), ("u", 1))
    )
    i = graph.add_tensor(Tensor("i", DType.INT_32, (1,), TensorKind.APP_WRITE))
    kind = ElementsReduction[reduction]
    add(graph, "ScatterElements", [x, i, u], name="y", spec=Spec(u8, (2,), code), reduction=kind)
    # stored 20 and 30 are the real values 5 and 10, their sum 15 is stored as 40
    feeds = {"x": np.array([12, 20]), "u": np.array([30]), "i": np.array([1])}
    found = evaluate(
        graph, {n: a.astype(np.int32 if n == "i" else np.uint8) for n, a in feeds.items()}
    )
    np.testing.assert_array_equal(found["y"], want)


@given(shapes, st.integers(0, 3), st.integers(0, 4), st.data())
def test_one_hot(run_op: Run, shape: Shape, at: int, depth: int, data: Any) -> None:
    axis = min(at, len(shape))
    indices = draw_indices(data, shape, 7)
    y = run_op("OneHot", indices, depth=depth, axis=axis, on_value=5.0, off_value=-1.5)
    assert y.shape == (*shape[:axis], depth, *shape[axis:])
    for place, value in np.ndenumerate(y):
        index = indices[(*place[:axis], *place[axis + 1 :])]
        # one from the end counts; beyond either end nothing is on
        is_on = place[axis] in (index, index + depth)
        assert value == (5.0 if is_on else -1.5)


def test_one_hot_defaults(run_op: Run) -> None:
    y = run_op("OneHot", np.array([[2, 0]], np.uint32), depth=3)
    want = np.array([[[0, 0, 1], [1, 0, 0]]], np.float32)
    np.testing.assert_array_equal(y, want, strict=True)
    spec = Spec(DType.INT_64, (1, 2, 3))
    y = run_op("OneHot", np.array([[2, 0]], np.uint32), depth=3, specs=(spec,))
    np.testing.assert_array_equal(y, want.astype(np.int64), strict=True)


def test_one_hot_of_a_fixed_point_type(evaluate: Callable[..., Any]) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", DType.INT_32, (), TensorKind.APP_WRITE))
    spec = Spec(DType.UFIXED_POINT_8, (2,), ScaleOffset(0.5, -10))
    add(graph, "OneHot", [x], name="y", depth=2, spec=spec)
    np.testing.assert_array_equal(evaluate(graph, {"x": np.array(1, np.int32)})["y"], [10, 12])


I32 = np.int32
REFUSED: list[tuple[str, list[Array], dict[str, Any], str]] = [
    (
        "ScatterElements",
        [np.ones((2, 3)), np.zeros((1, 2), I32), np.ones((2, 1))],
        {},
        "in[2] must have shape (1, 2), but its shape is (2, 1)",
    ),
    (
        "ScatterElements",
        [np.ones((2, 3)), np.zeros((2, 4), I32), np.ones((2, 4))],
        {},
        "in[1] (2, 4) must have the rank of in[0] (2, 3) and exceed it on axis 0 only",
    ),
    (
        "ScatterElements",
        [np.ones(2), np.zeros(1, I32), np.ones(1, np.float32)],
        {},
        "FLOAT_64 and FLOAT_32",
    ),
    (
        "ScatterElements",
        [np.ones(2), np.array([1, -3, 5], I32), np.ones(3)],
        {},
        "index -3 is out of range on axis 0, which has size 2",
    ),
    (
        "ScatterNd",
        [np.ones((2, 3)), np.zeros((4, 1), I32), np.ones((4, 2))],
        {},
        "in[2] must have shape (4, 3), but its shape is (4, 2)",
    ),
    (
        "ScatterNd",
        [np.ones(2), np.zeros((4, 2), I32), np.ones(4)],
        {},
        "has rows of 2 indices, but in[0] (2,) has 1 dimensions",
    ),
    ("ScatterNd", [np.ones(2), np.zeros((), I32), np.ones(2)], {}, "in[1] must have rank 1 or"),
    (
        "ScatterNd",
        [np.ones((2, 3)), np.array([[1, 3]], I32), np.ones(1)],
        {},
        "index 3 is out of range on axis 1, which has size 3",
    ),
    ("OneHot", [np.zeros(2, I32)], {"depth": 3, "axis": 2}, "axis 2 is not an axis"),
    (
        "OneHot",
        [np.zeros(2, I32)],
        {"depth": 3, "off_value": 0.5, "specs": (Spec(DType.INT_8, (2, 3)),)},
        "off_value is 0.5, which INT_8 cannot hold",
    ),
    (
        "OneHot",
        [np.zeros(2, I32)],
        {"depth": 3, "specs": (Spec(DType.INT_8, (3, 2)),)},
        "as INT_8 (3, 2), but qti.aisw::OneHot returns INT_8 (2, 3)",
    ),
]


@pytest.mark.parametrize(("name", "inputs", "params", "said"), REFUSED)
def test_refusals(
    run_op: Run, name: str, inputs: list[Array], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, *inputs, **params)
    assert said in str(caught.value)
