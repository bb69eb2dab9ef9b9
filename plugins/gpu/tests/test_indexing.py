"""Ops that move slices and elements by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples
from small_nets import model_of, numbered

import dovetail as dt
from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail_gpu import boxes
from dovetail_opset.build import add_all, static

_EXAMPLES = examples(25)
Check = Callable[..., None]
TYPES = (np.float32, np.uint8)  # each width is a program, which takes long to compile


def indices(shape: tuple[int, ...], size: int, dtype: type = np.int32, seed: int = 0) -> Array:
    """Return indices within a size, negative ones too if the type has them."""
    low = -size if np.dtype(dtype).kind == "i" else 0
    return np.random.default_rng(seed).integers(low, size, shape).astype(dtype)


@_EXAMPLES
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(TYPES),
    st.sampled_from((np.int32, np.uint32, np.int64, np.uint8)),
    st.data(),
)
def test_gather(
    check_op: Check,
    shape: list[int],
    wanted: list[int],
    dtype: type,
    kind: type,
    data: st.DataObject,
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    found = indices(tuple(wanted), shape[axis], kind)
    check_op("Gather", numbered(tuple(shape), dtype), found, axis=axis)


@pytest.mark.parametrize("shape", [(40, 768), (3, 5000), (7, 5, 3)])
@pytest.mark.parametrize("for_processor", [True, False])
def test_gather_of_many(check_op: Check, shape: tuple[int, ...], for_processor: bool) -> None:
    with mock.patch.object(boxes, "for_processor", return_value=for_processor):
        for axis in range(len(shape)):
            check_op("Gather", numbered(shape), indices((50, 3), shape[axis]), axis=axis)


def test_gather_by_static_indices(check_op: Check) -> None:
    check_op("Gather", numbered((5, 4)), indices((3,), 5), static=(1,), axis=0)


def test_gather_from_an_empty_axis(check_op: Check) -> None:
    check_op("Gather", numbered((0, 4)), indices((0, 2), 1), axis=0)


def test_an_index_out_of_range_is_clamped() -> None:
    """On the device nothing raises, but nothing outside the tensor is read."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, 3), TensorKind.APP_WRITE))
    i = graph.add_tensor(Tensor("i", DType.INT_32, (2,), TensorKind.APP_WRITE))
    (y,) = add_all(graph, "Gather", [x, i], name="gather", axis=0)
    y.kind = TensorKind.APP_READ
    model = model_of(graph)
    given, index = numbered((4, 3)), np.array([1 << 30, -(1 << 30)], np.int32)
    with dt.Session(model, backend="gpu") as session:
        (found,) = session.run({"x": given, "i": index}).values()
    np.testing.assert_array_equal(found, given[[3, 0]])


@pytest.mark.parametrize(
    ("op", "index", "params"),
    [
        ("Gather", [3, 4], {"axis": 0}),
        ("Gather", [-5, 0], {"axis": 0}),
        ("GatherNd", [[1, 2], [0, 3]], {}),
        ("GatherElements", [[0, 4, 1]], {"axis": 0}),
        ("ScatterNd", [[0, -4]], {}),
        ("ScatterElements", [[0, 4, 1]], {"axis": 0}),
    ],
)
def test_a_constant_index_out_of_range_is_an_error(
    op: str, index: list[Any], params: dict[str, Any]
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, 3), TensorKind.APP_WRITE))
    inputs = [x, static(graph, "i", np.array(index, np.int32))]
    if op.startswith("Scatter"):
        shape = (1,) if op == "ScatterNd" else (1, 3)
        inputs.append(static(graph, "updates", np.ones(shape, np.float32)))
    (y,) = add_all(graph, op, inputs, name="node", **params)
    y.kind = TensorKind.APP_READ
    model = model_of(graph)
    with pytest.raises(OpError, match=r"is out of range on an axis of size") as caught:
        dt.Session(model, backend="gpu")
    assert "'node'" in str(caught.value)


@_EXAMPLES
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(TYPES), st.data())
def test_gather_and_scatter_elements(
    check_op: Check, shape: list[int], dtype: type, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    wanted = [data.draw(st.integers(0, n if k != axis else 7)) for k, n in enumerate(shape)]
    x, index = numbered(tuple(shape), dtype), indices(tuple(wanted), shape[axis])
    check_op("GatherElements", x, index, axis=axis)
    updates = 100 + numbered(tuple(wanted), dtype)
    check_op("ScatterElements", x, index, updates.astype(dtype), axis=axis)


@_EXAMPLES
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.integers(0, 7), min_size=1, max_size=2),
    st.sampled_from(TYPES),
    st.data(),
)
def test_gather_and_scatter_nd(
    check_op: Check, shape: list[int], rows: list[int], dtype: type, data: st.DataObject
) -> None:
    depth = data.draw(st.integers(1, len(shape)))
    x = numbered(tuple(shape), dtype)
    columns = [indices(tuple(rows), n, seed=k) for k, n in enumerate(shape[:depth])]
    index = np.stack(columns, axis=-1)
    check_op("GatherNd", x, index)
    updates = (100 + numbered((*rows, *shape[depth:]))).astype(dtype)
    check_op("ScatterNd", x, index, updates)


def test_gather_nd_by_batch(check_op: Check) -> None:
    index = np.stack([indices((3, 5), 4), indices((3, 5), 6, seed=1)], axis=-1)
    check_op("GatherNd", numbered((3, 4, 6, 2)), index, batch_dims=1)


@pytest.mark.parametrize(("reduction", "dtype"), [(1, np.float32), (2, np.float16), (1, np.int32)])
def test_scatter_nd_that_combines(check_op: Check, reduction: int, dtype: type) -> None:
    index = indices((9, 1), 4)
    updates = (numbered((9, 5)) % 3).astype(dtype)
    check_op("ScatterNd", numbered((4, 5), dtype), index, updates, reduction=reduction, rtol=1e-2)


@pytest.mark.parametrize(("reduction", "dtype"), [(1, np.float16), (2, np.int32), (3, np.float32)])
def test_scatter_elements_that_combines(check_op: Check, reduction: int, dtype: type) -> None:
    index, updates = indices((7, 5), 4), (numbered((7, 5)) % 3).astype(dtype)
    x = numbered((4, 5), dtype)
    if np.dtype(dtype).kind == "f" and reduction == 3:
        x[0, 0] = updates[1, 1] = np.nan
    check_op("ScatterElements", x, index, updates, axis=0, reduction=reduction, rtol=1e-2)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("values", [(1.5, -0.5), (3, 2), (True, False)])
@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_one_hot(check_op: Check, axis: int, values: tuple[float, float], kind: type) -> None:
    index = np.array([[0, 5, -1], [-7, 3, 9]], np.int32).astype(kind)
    on, off = values
    check_op("OneHot", index, depth=6, axis=axis, on_value=on, off_value=off)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_cumulative_sum(check_op: Check, axis: int, dtype: type) -> None:
    x = np.random.default_rng(0).integers(-3, 9, (3, 7, 5)).astype(dtype)
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        exclusive, reverse = flags
        check_op("CumulativeSum", x, axis=axis, exclusive=exclusive, reverse=reverse)


def test_batch_permutation(check_op: Check) -> None:
    index = np.array([2, -1, 0, 9], np.int32)
    check_op("BatchPermutation", numbered((5, 3, 11)), index)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 5), (7, 6, 5, 4)])
def test_shapes(check_op: Check, shape: tuple[int, ...]) -> None:
    check_op("Shape", numbered(shape))
    check_op("Shape", numbered(shape), start=len(shape) // 2, end=len(shape))


@pytest.mark.parametrize("shape", [(), (3, 70), (2, 0, 5)])
@pytest.mark.parametrize("value", [2.5, -7, True])
def test_constant_of_shape(check_op: Check, shape: tuple[int, ...], value: float) -> None:
    kind = {float: DType.FLOAT_32, int: DType.INT_32, bool: DType.BOOL_8}[type(value)]
    sizes, specs = np.array(shape, np.uint32), (Spec(kind, shape),)
    check_op("ConstantOfShape", sizes, static=(0,), specs=specs, value=value)
