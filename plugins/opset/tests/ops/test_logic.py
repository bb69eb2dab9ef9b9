"""Comparisons, logic and choice against Python's own operators, broadcasting included."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

Run = Callable[..., Any]
Function = Callable[..., Any]

COMPARISONS: dict[str, Function] = {
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
    "Less": operator.lt,
    "LessEqual": operator.le,
}
LOGIC: dict[str, Function] = {
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
    "Xor": lambda a, b: bool(a) is not bool(b),
}
DTYPES = (np.bool_, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64)
two_shapes = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3)
three_shapes = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0, max_side=3)


def element(x: Array, place: tuple[int, ...]) -> Any:
    """Return the element of an array at an index of its broadcast form."""
    own = place[len(place) - x.ndim :]
    return x[tuple(0 if n == 1 else i for i, n in zip(own, x.shape, strict=True))].item()


def expected(function: Function, *arrays: Array) -> Array:
    """Apply a function of Python numbers to the elements at one index."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    y = np.zeros(shape, object)
    for place in np.ndindex(*shape):
        y[place] = function(*(element(x, place) for x in arrays))
    return y


@pytest.mark.parametrize("name", COMPARISONS | LOGIC)
@given(two_shapes, st.sampled_from(DTYPES), st.integers(0, 99))
def test_two_tensors(
    name: str, run_op: Run, shapes: hnp.BroadcastableShapes, dtype: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 3, s).astype(dtype) for s in shapes.input_shapes)
    y = run_op(f"ElementWise{name}", a, b)
    assert y.dtype == np.bool_
    np.testing.assert_array_equal(y, expected((COMPARISONS | LOGIC)[name], a, b), strict=False)
    assert y.shape == shapes.result_shape


def test_neighbors_differ(run_op: Run) -> None:
    big = np.array([2**62], np.int64)  # more digits than a float64 has
    assert run_op("ElementWiseLess", big, big + 1).tolist() == [True]
    assert run_op("ElementWiseEqual", big, big + 1).tolist() == [False]


def test_nan_equals_nothing(run_op: Run) -> None:
    nan, one = np.array([np.nan], np.float32), np.ones(1, np.float32)
    for name in COMPARISONS:
        for other in (nan, one):
            assert run_op(f"ElementWise{name}", nan, other).tolist() == [name == "NotEqual"]
    assert run_op("ElementWiseAnd", nan, one).tolist() == [True]  # it is not 0


@pytest.mark.parametrize("dtype", [DType.UINT_8, DType.INT_32, DType.BOOL_8])
def test_a_declared_type_gets_ones_and_zeros(run_op: Run, dtype: DType) -> None:
    a, b = np.array([1, 5, 3], np.float32), np.array(2, np.float32)
    y = run_op("ElementWiseGreater", a, b, specs=(Spec(dtype, (3,)),))
    assert y.dtype == dtype.storage
    np.testing.assert_array_equal(y, [0, 1, 1])


def fixed(graph: Graph, name: str, shape: tuple[int, ...], encoding: ScaleOffset) -> Tensor:
    tensor = Tensor(name, DType.UFIXED_POINT_8, shape, TensorKind.APP_WRITE, encoding=encoding)
    return graph.add_tensor(tensor)


def test_fixed_point_compares_real_values(evaluate: Callable[..., Any]) -> None:
    graph = Graph("g")
    a = fixed(graph, "a", (3,), ScaleOffset(0.5, -10))
    b = fixed(graph, "b", (3,), ScaleOffset(1.0, 0))
    add(graph, "ElementWiseEqual", [a, b], name="equal")
    whole = ScaleOffset(1 / 255, 0)
    add(graph, "ElementWiseOr", [a, b], name="or", spec=Spec(DType.UFIXED_POINT_8, (3,), whole))
    feeds = {"a": np.array([14, 10, 10], np.uint8), "b": np.array([2, 10, 0], np.uint8)}
    values = evaluate(graph, feeds)  # 2, 0, 0 and 2, 10, 0
    assert values["equal"].tolist() == [True, False, True]
    assert values["or"].tolist() == [255, 255, 0]


@given(
    three_shapes, st.sampled_from(DTYPES), st.sampled_from([np.bool_, np.int32]), st.integers(0, 99)
)
def test_select(
    run_op: Run, shapes: hnp.BroadcastableShapes, dtype: Any, condition: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    where, a, b = (rng.integers(0, 3, s) for s in shapes.input_shapes)
    where, a, b = where.astype(condition), a.astype(dtype), b.astype(dtype)
    y = run_op("ElementWiseSelect", where, a, b)
    assert (y.dtype, y.shape) == (dtype, shapes.result_shape)
    np.testing.assert_array_equal(y, expected(lambda c, p, q: p if c else q, where, a, b))


def test_select_keeps_every_digit_and_nan(run_op: Run) -> None:
    big = np.array([2**62 + 1, -(2**62) - 1], np.int64)  # more digits than a float64 has
    where = np.array([True, False])
    np.testing.assert_array_equal(run_op("ElementWiseSelect", where, big, big[::-1]), big[[0, 0]])
    nan = np.full(2, np.nan, np.float32)
    np.testing.assert_array_equal(
        run_op("ElementWiseSelect", where, np.ones(2, np.float32), nan), [1, np.nan]
    )


def test_select_of_fixed_point(evaluate: Callable[..., Any]) -> None:
    graph = Graph("g")
    coarse, fine = ScaleOffset(0.5, -10), ScaleOffset(0.25, 0)
    # a condition whose 0 is stored as 10, like that of the numbers it chooses from
    where, a = fixed(graph, "where", (4,), coarse), fixed(graph, "a", (), coarse)
    b, c = fixed(graph, "b", (1,), coarse), fixed(graph, "c", (1,), fine)
    same = add(graph, "ElementWiseSelect", [where, a, b], name="same")
    assert same.encoding == coarse  # moves with the numbers
    target = Spec(DType.UFIXED_POINT_8, (4,), fine)
    add(graph, "ElementWiseSelect", [where, a, c], name="mixed", spec=target)
    feeds = {"where": [0, 10, 11, 10], "a": 30, "b": [12], "c": [7]}
    values = evaluate(graph, {k: np.array(v, np.uint8) for k, v in feeds.items()})
    assert values["same"].tolist() == [30, 12, 30, 12]
    assert values["mixed"].tolist() == [40, 7, 40, 7]
    mixed = add(graph, "ElementWiseSelect", [where, a, c], name="unknown")
    assert mixed.encoding is None


def test_refusals(run_op: Run) -> None:
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(OpError, match="different types: FLOAT_32 and INT_32"):
        run_op("ElementWiseLess", a, np.zeros(3, np.int32))
    with pytest.raises(OpError, match=r"\(2, 3\) and \(4,\) do not broadcast"):
        run_op("ElementWiseAnd", a != 0, np.zeros(4, np.bool_))
    with pytest.raises(OpError, match=r"out\[0\] must be BOOL_8.* declared FLOAT_32"):
        run_op("ElementWiseLess", a, a, specs=(Spec(DType.FLOAT_32, (2, 3)),))
    with pytest.raises(OpError, match=r"in\[1\] is FLOAT_32, but in\[2\] is INT_32"):
        run_op("ElementWiseSelect", a != 0, a, np.zeros(3, np.int32))
    with pytest.raises(OpError, match=r"\(2,\) and \(2, 3\) and \(\) do not broadcast"):
        run_op("ElementWiseSelect", np.ones(2, np.bool_), a, np.zeros((), np.float32))
