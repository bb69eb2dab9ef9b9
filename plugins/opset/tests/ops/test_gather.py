"""Gathering by index against loops over the result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_inputs import draw_indices, numbered

from dovetail.errors import GraphError, OpError
from dovetail.ir import Array, Shape

Run = Callable[..., Any]
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), st.data())
def test_gather_elements(run_op: Run, shape: Shape, data: Any) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    # elsewhere than on the axis the indices may cover less than the data
    wanted = [data.draw(st.integers(0, n)) for n in shape]
    wanted[axis] = data.draw(st.integers(0, 4)) if shape[axis] else 0
    indices = draw_indices(data, tuple(wanted), max(shape[axis], 1))
    x = numbered(shape)
    y = run_op("GatherElements", x, indices, axis=axis)
    assert y.shape == tuple(wanted)
    for place, value in np.ndenumerate(y):
        source = list(place)
        source[axis] = indices[place]
        assert value == x[tuple(source)]


def test_gather_elements_along_the_first_axis(run_op: Run) -> None:
    x = np.array([[1, 2], [3, 4]], np.uint8)
    y = run_op("GatherElements", x, np.array([[1, 0]], np.uint32))
    np.testing.assert_array_equal(y, np.array([[3, 2]], np.uint8), strict=True)


@given(shapes, shapes, shapes, st.integers(0, 2), st.data())
def test_gather_nd(
    run_op: Run, inner: Shape, rows: Shape, slices: Shape, batch_dims: int, data: Any
) -> None:
    batch = (2, 3)[:batch_dims]
    columns = [draw_indices(data, (*batch, *rows), n) for n in inner]
    indices = np.stack([np.zeros((*batch, *rows), np.int32), *columns], axis=-1)[..., 1:]
    x = numbered((*batch, *inner, *slices))
    y = run_op("GatherNd", x, indices, batch_dims=batch_dims)
    assert y.shape == (*batch, *rows, *slices)
    for place in np.ndindex(*batch, *rows):
        at = (*place[:batch_dims], *indices[place])
        np.testing.assert_array_equal(y[place], x[at])


@pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
def test_gather_nd_of_nothing(run_op: Run, shape: Shape) -> None:
    assert run_op("GatherNd", numbered(shape), np.zeros((0, 2), np.int32)).shape == (0,)
    one = run_op("GatherNd", numbered((2, 0)), np.array([[1]], np.int32))
    assert one.shape == (1, 0)
    assert run_op("GatherNd", numbered((0, 3)), np.zeros((0, 1), np.int64), batch_dims=1).size == 0


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.int8, np.float64])
def test_any_type_moves(run_op: Run, dtype: type) -> None:
    x = np.array([[1, 0], [0, 1]], dtype)
    whole = np.array([[0, 0], [1, 1]], np.int32)
    np.testing.assert_array_equal(run_op("GatherNd", x, whole), np.array([1, 1], dtype))
    assert run_op("GatherElements", x, whole).dtype == dtype


REFUSED: list[tuple[str, Shape, Array, dict[str, Any], str]] = [
    ("GatherElements", (2, 3), numbered((2,), np.int32), {}, "must have the rank of in[0] (2, 3)"),
    ("GatherElements", (2, 3), numbered((2, 4), np.int32), {}, "exceed it on axis 0 only"),
    ("GatherElements", (2, 3), numbered((2, 3), np.int32), {"axis": 2}, "axis 2 is not an axis"),
    ("GatherElements", (), numbered((), np.int32), {}, "axis 0 is not an axis"),
    ("GatherNd", (2, 3), numbered((2, 3), np.int32), {}, "has rows of 3 indices"),
    ("GatherNd", (2, 3), numbered((), np.int32), {}, "batch_dims 0 is too large"),
    (
        "GatherNd",
        (2, 3),
        numbered((2, 1), np.int32),
        {"batch_dims": 2},
        "batch_dims 2 is too large",
    ),
    ("GatherNd", (2, 3), numbered((3, 1), np.int32), {"batch_dims": 1}, "in the first 1 dimension"),
    ("GatherNd", (2, 3), numbered((3, 1)), {}, "indices must be integers, but in[1] is FLOAT_32"),
    (
        "GatherElements",
        (2, 2),
        np.array([[0, 1], [2, -3]], np.int32),
        {},
        "index 2 is out of range on axis 0, which has size 2",
    ),
    (
        "GatherNd",
        (2, 3),
        np.array([[0, 2], [1, 3], [0, -4]], np.int32),
        {},
        "index 3 is out of range on axis 1, which has size 3",
    ),
    (
        "GatherNd",
        (2, 3),
        np.array([[0], [-4]], np.int64),
        {"batch_dims": 1},
        "index -4 is out of range on axis 1, which has size 3",
    ),
]


@pytest.mark.parametrize(("name", "shape", "indices", "params", "said"), REFUSED)
def test_refusals(
    run_op: Run, name: str, shape: Shape, indices: Array, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, numbered(shape), indices, **params)
    assert said in str(caught.value)


def test_indices_of_another_type_are_refused(run_op: Run) -> None:
    with pytest.raises(GraphError, match="is INT_64; allowed: INT_32, UINT_32"):
        run_op("GatherElements", numbered((2,)), np.array([0], np.int64))


@pytest.mark.parametrize("index", [2**32 + 1, 2**31, -(2**32), -(2**63), 2**63, 2**64 - 1])
@pytest.mark.parametrize("op_type", ["Gather", "GatherNd"])
def test_wide_indices_do_not_wrap(run_op: Run, op_type: str, index: int) -> None:
    x = numbered((3, 2))
    wide = np.array([[index]], np.uint64 if index >= 2**63 else np.int64)
    params = {"axis": 0} if op_type == "Gather" else {}
    with pytest.raises(OpError, match=f"index {index} is out of range on axis 0, which has size 3"):
        run_op(op_type, x, wide, **params)
