"""Stacking, unstacking, repeating and permuting."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_inputs import numbered

from dovetail.errors import GraphError, OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Shape, Tensor, TensorKind
from dovetail_opset.build import add

Run = Callable[..., Any]
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(shapes, st.integers(1, 3), st.integers(0, 3))
def test_pack_and_unpack_are_inverse(run_op: Run, shape: Shape, count: int, at: int) -> None:
    axis = min(at, len(shape))
    pieces = [numbered(shape, np.int16) + 100 * i for i in range(count)]
    whole = run_op("Pack", *pieces, axis=axis)
    assert whole.shape == (*shape[:axis], count, *shape[axis:])
    for place, value in np.ndenumerate(whole):
        assert value == pieces[place[axis]][(*place[:axis], *place[axis + 1 :])]
    parts = run_op("UnPack", whole, axis=axis)
    for part, want in zip([parts] if count == 1 else parts, pieces, strict=True):
        np.testing.assert_array_equal(part, want, strict=True)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
def test_tile(run_op: Run, axes: list[tuple[int, int]]) -> None:
    x = numbered(tuple(n for n, _ in axes))
    y = run_op("Tile", x, multiples=[m for _, m in axes])
    assert y.shape == tuple(n * m for n, m in axes)
    for place, value in np.ndenumerate(y):
        assert value == x[tuple(p % n for p, n in zip(place, x.shape, strict=True))]


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.int64, np.float64])
def test_tile_keeps_the_type(run_op: Run, dtype: type) -> None:
    x = np.array([1, 0], dtype)
    np.testing.assert_array_equal(
        run_op("Tile", x, multiples=[2]), np.array([1, 0, 1, 0], dtype), strict=True
    )


@given(st.integers(0, 4), st.lists(st.integers(-2, 5), max_size=4), shapes)
def test_batch_permutation(run_op: Run, batch: int, chosen: list[int], rest: Shape) -> None:
    chosen = chosen[:batch]
    x = numbered((batch, *rest)) + 1
    y = run_op("BatchPermutation", x, np.array(chosen, np.int32))
    # out-of-range indices leave no gap: what they would have filled is missing at the end
    rows = [x[i] for i in chosen if 0 <= i < batch]
    rows += [np.zeros(rest, np.float32)] * (len(chosen) - len(rows))
    np.testing.assert_array_equal(y, np.array(rows, np.float32).reshape(len(chosen), *rest))


def test_batch_permutation_fills_with_the_zero_point(evaluate: Callable[..., Any]) -> None:
    graph, code = Graph("g"), ScaleOffset(0.5, -10)
    x = Tensor("x", DType.UFIXED_POINT_8, (2,), TensorKind.APP_WRITE, encoding=code)
    i = Tensor("i", DType.UINT_32, (2,), TensorKind.APP_WRITE)
    graph.add_tensor(x)
    graph.add_tensor(i)
    add(graph, "BatchPermutation", [x, i], name="y")
    feeds = {"x": np.array([200, 201], np.uint8), "i": np.array([7, 1], np.uint32)}
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], [201, 10])


def test_encodings_move(evaluate: Callable[..., Any]) -> None:
    graph, code = Graph("g"), ScaleOffset(1e-3, -3)
    x = Tensor("x", DType.UFIXED_POINT_8, (2,), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    pack = add(graph, "Pack", [x, x], name="p", axis=0)
    tile = add(graph, "Tile", [x], name="t", multiples=[2])
    assert (pack.encoding, tile.encoding) == (code, code)
    values = evaluate(graph, {"x": np.array([0, 255], np.uint8)})
    np.testing.assert_array_equal(values["p"], [[0, 255], [0, 255]])
    np.testing.assert_array_equal(values["t"], [0, 255, 0, 255])


REFUSED: list[tuple[str, list[Array], dict[str, Any], str]] = [
    ("Pack", [], {"axis": 0}, "but got none"),
    ("Pack", [numbered((2,)), numbered((3,))], {"axis": 0}, "in[1] (3,) differs from in[0] (2,)"),
    ("Pack", [numbered((2,))], {"axis": 2}, "axis 2 is not an axis of a tensor of rank 2"),
    ("Pack", [numbered((2,)), numbered((2,), np.int8)], {"axis": 0}, "FLOAT_32 and INT_8"),
    ("UnPack", [numbered((2, 0))], {"axis": 1}, "has no elements along axis 1"),
    ("UnPack", [numbered((2,))], {"axis": 1}, "axis 1 is not an axis"),
    ("UnPack", [numbered((2,))], {"axis": 0, "outputs": ["a"]}, "2 slices along axis 0 for 1"),
    ("Tile", [numbered((2, 3))], {"multiples": [2]}, "multiples has 1 elements for in[0] (2, 3)"),
    (
        "BatchPermutation",
        [numbered((1,)), numbered((2,), np.int32)],
        {},
        "in[1] has 2 indices for a batch of 1",
    ),
    ("BatchPermutation", [numbered((1,)), numbered((1, 1), np.int32)], {}, "must have rank 1"),
    ("BatchPermutation", [numbered(()), numbered((0,), np.int32)], {}, "in[0] must have rank 1"),
]


@pytest.mark.parametrize(("name", "inputs", "params", "said"), REFUSED)
def test_refusals(
    run_op: Run, name: str, inputs: list[Array], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, *inputs, **params)
    assert said in str(caught.value)


def test_indices_of_another_type_are_refused(run_op: Run) -> None:
    with pytest.raises(GraphError, match="is INT_64; allowed: INT_32, UINT_32"):
        run_op("BatchPermutation", numbered((2,)), np.array([0], np.int64))
