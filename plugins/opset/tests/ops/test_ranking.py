"""Indices of elements against Python's sorting, one row after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add, add_all

Run = Callable[..., Any]
Evaluate = Callable[..., Any]
each_type = pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.bool_])


def numbers(seed: int, *shape: int) -> Any:
    """Return few different numbers, so that many are equal."""
    return np.random.default_rng(seed).integers(0, 5, shape)


# -- Argmax and Argmin ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "best"), [("Argmax", max), ("Argmin", min)])
@pytest.mark.parametrize("axis", [0, 1, 2])
@each_type
def test_the_first_of_equal_elements(
    run_op: Run, name: str, best: Callable[..., Any], axis: int, dtype: type[Any]
) -> None:
    x = numbers(1, 3, 4, 5).astype(dtype)
    y = run_op(name, x, axis=axis)
    assert y.dtype == np.int32
    rows = np.moveaxis(x, axis, -1)
    for place in np.ndindex(*rows.shape[:-1]):
        row = rows[place].tolist()
        assert y[place] == row.index(best(row))
    kept = run_op(name, x, axis=axis, keep_dims=True)
    np.testing.assert_array_equal(kept, np.expand_dims(y, axis))


def test_argmax_of_float16_and_in_other_types(run_op: Run) -> None:
    x = np.array([[0.5, 2, 1]], np.float16)
    for dtype in (DType.INT_32, DType.UINT_32, DType.INT_64, DType.FLOAT_32):
        y = run_op("Argmax", x, axis=1, specs=(Spec(dtype, (1,)),))
        assert (y.dtype, y.tolist()) == (dtype.storage, [1])
    with pytest.raises(OpError, match="holds indices; it cannot be BOOL_8"):
        run_op("Argmax", x, axis=1, specs=(Spec(DType.BOOL_8, (1,)),))


def test_argmax_without_elements(run_op: Run) -> None:
    assert run_op("Argmax", np.zeros((0, 3), np.float32), axis=1).shape == (0,)
    with pytest.raises(OpError, match=r"\(0, 3\) has no elements along axes \(0,\)"):
        run_op("Argmax", np.zeros((0, 3), np.float32), axis=0)
    with pytest.raises(OpError, match="axis 0 is not an axis of a tensor of rank 0"):
        run_op("Argmin", np.zeros((), np.float32), axis=0)


# -- TopK ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3, 7])
@each_type
def test_top_k_is_sorted_and_takes_the_larger_index_first(
    run_op: Run, largest: bool, k: int, dtype: type[Any]
) -> None:
    x = numbers(2, 3, 2, 7).astype(dtype)
    values, indices = run_op("TopK", x, k=k, largest=largest)
    assert (values.dtype, indices.dtype) == (dtype, np.uint32)
    assert values.shape == indices.shape == (3, 2, k)
    for place in np.ndindex(3, 2):
        row = x[place].tolist()
        sign = -1 if largest else 1
        order = sorted(range(7), key=lambda i, row=row, sign=sign: (sign * int(row[i]), -i))
        assert indices[place].tolist() == order[:k]
        assert values[place].tolist() == [row[i] for i in order[:k]]


def test_top_k_of_a_row_and_in_signed_indices(run_op: Run) -> None:
    specs = (None, Spec(DType.INT_32, (2,)))
    values, indices = run_op("TopK", np.float32([1, 4, 4]), k=2, specs=specs)
    assert indices.dtype == np.int32
    assert (values.tolist(), indices.tolist()) == ([4, 4], [2, 1])
    assert run_op("TopK", np.zeros((0, 3), np.float32), k=2)[0].shape == (0, 2)


def test_top_k_takes_nan_for_the_greatest(run_op: Run) -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert run_op("TopK", x, k=3)[1].tolist() == [1, 2, 0]
    assert run_op("TopK", x, k=3, largest=False)[1].tolist() == [3, 0, 2]


def test_ranks_of_fixed_point_are_those_of_the_real_values(evaluate: Evaluate) -> None:
    # a scale by place along axis 0: 9 * 0.1 is less than 4 * 0.5
    code = AxisScaleOffset(0, np.array([0.1, 0.5], np.float32), np.array([0, 0], np.int32))
    graph = Graph("fixed")
    x = Tensor("x", DType.UFIXED_POINT_8, (2, 2), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    add(graph, "Argmax", [x], name="place", axis=0)
    one = ScaleOffset(0.25, -8)
    y = Tensor("y", DType.UFIXED_POINT_8, (3,), TensorKind.APP_WRITE, encoding=one)
    graph.add_tensor(y)
    values, _ = add_all(graph, "TopK", [y], name="best", k=2)
    assert values.spec == Spec(DType.UFIXED_POINT_8, (2,), one)  # they are moved, no more
    feed = {"x": np.array([[9, 100], [4, 3]], np.uint8), "y": np.array([3, 200, 8], np.uint8)}
    found = evaluate(graph, feed)
    assert found["place"].tolist() == [1, 0]
    assert (found["best.0"].tolist(), found["best.1"].tolist()) == ([200, 8], [1, 2])


def test_top_k_refusals(run_op: Run) -> None:
    with pytest.raises(OpError, match=r"k is 4, but the last axis of in\[0\] \(2, 3\)"):
        run_op("TopK", np.zeros((2, 3), np.float32), k=4)
    with pytest.raises(OpError, match="it is a scalar"):
        run_op("TopK", np.zeros((), np.float32), k=0)


# -- NonZero -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 1, 4)])
def test_non_zero(run_op: Run, dtype: type[Any], shape: tuple[int, ...]) -> None:
    x = (np.arange(np.prod(shape)) % 3 - 1).reshape(shape).astype(dtype)
    places = [list(place) for place in np.ndindex(*shape) if x[place] != 0]
    for room in (len(places), len(places) + 2):
        y = run_op("NonZero", x, specs=(Spec(DType.INT_32, (room, len(shape))),))
        assert y.dtype == np.int32
        assert y.tolist() == [*places, *[[0] * len(shape)] * (room - len(places))]


def test_non_zero_of_special_numbers_scalars_and_nothing(run_op: Run) -> None:
    x = np.array([0.0, -0.0, np.nan, 1e-30], np.float32)
    y = run_op("NonZero", x, specs=(Spec(DType.UINT_32, (2, 1)),))
    assert (y.dtype, y.tolist()) == (np.uint32, [[2], [3]])
    assert run_op("NonZero", np.int32(3).reshape(()), specs=(Spec(DType.INT_32, (1, 0)),)).size == 0
    empty = run_op("NonZero", np.zeros((0, 2), np.int32), specs=(Spec(DType.INT_32, (1, 2)),))
    assert empty.tolist() == [[0, 0]]


def test_non_zero_refusals(run_op: Run) -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(OpError, match=r"declare the output as \(m, 2\).* at most 6"):
        run_op("NonZero", x)
    with pytest.raises(OpError, match=r"out\[0\] must be \(m, 2\), .* but is \(6, 3\)"):
        run_op("NonZero", x, specs=(Spec(DType.INT_32, (6, 3)),))
    with pytest.raises(OpError, match="6 nonzero elements, but the output is declared for 5"):
        run_op("NonZero", x, specs=(Spec(DType.INT_32, (5, 2)),))
    with pytest.raises(OpError, match="INT_64"):
        run_op("NonZero", x, specs=(Spec(DType.INT_64, (6, 2)),))
