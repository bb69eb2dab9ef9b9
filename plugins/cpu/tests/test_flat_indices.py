"""Gathering and scattering by index against the references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import BackendError, OpError
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail_opset.build import add

DTYPES = [np.float32, np.float16, np.int8, np.int64, np.uint16, np.bool_]
dtypes = st.sampled_from(DTYPES)
shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
some = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
# whether the indices are constant
known = st.sampled_from([(), (1,)])


def elements(seed, dtype, *shape):
    # whole numbers: sums and products are exact in any order
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def indices(data, extent, *shape):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    least = -extent if data.draw(st.booleans()) else 0
    dtype = np.int32 if least else np.uint32
    return rng.integers(least, extent, shape).astype(dtype)


def rows(data, inner, *shape):
    columns = [indices(data, n, *shape).astype(np.int32) for n in inner]
    return np.stack(columns, axis=-1)


def part_of(data, shape, axis):
    wanted = [data.draw(st.integers(1, n)) for n in shape]
    wanted[axis] = data.draw(st.integers(1, 5))
    return wanted


@settings(max_examples=15)
@given(some, st.data(), dtypes, known)
def test_gather_elements(check_op, shape, data, dtype, static):
    axis = data.draw(st.integers(0, len(shape) - 1))
    wanted = indices(data, shape[axis], *part_of(data, shape, axis))
    check_op("GatherElements", elements(1, dtype, *shape), wanted, static=static, axis=axis)


@settings(max_examples=15)
@given(some, shapes, shapes, st.integers(0, 2), st.data(), dtypes, known)
def test_gather_nd(check_op, inner, many, slices, batch_dims, data, dtype, static):
    batch = (2, 3)[:batch_dims]
    x = elements(1, dtype, *batch, *inner, *slices)
    wanted = rows(data, inner, *batch, *many)
    check_op("GatherNd", x, wanted, static=static, batch_dims=batch_dims)


@settings(max_examples=15)
@given(some, st.data(), st.sampled_from([np.float32, np.int64, np.uint16]), known)
@pytest.mark.parametrize("reduction", [0, 1, 2, 3])
def test_scatter_elements(check_op, reduction, shape, data, dtype, static):
    axis = data.draw(st.integers(0, len(shape) - 1))
    wanted = indices(data, shape[axis], *part_of(data, shape, axis))
    x, updates = elements(1, dtype, *shape), elements(2, dtype, *wanted.shape)
    params = {"axis": axis, "reduction": reduction}
    check_op("ScatterElements", x, wanted, updates, static=static, **params)


@settings(max_examples=15)
@given(some, shapes, shapes, st.data(), st.sampled_from([np.float32, np.int64, np.uint16]), known)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_scatter_nd(check_op, reduction, inner, many, slices, data, dtype, static):
    x, updates = elements(1, dtype, *inner, *slices), elements(2, dtype, *many, *slices)
    wanted = rows(data, inner, *many)
    check_op("ScatterNd", x, wanted, updates, static=static, reduction=reduction)


def test_what_the_kernels_leave_to_the_references(check_op):
    x, none = np.ones((2, 3), np.float32), np.zeros((0, 1), np.int32)
    check_op("ScatterNd", x, none, np.ones((0, 3), np.float32), kernel=False)
    check_op("GatherNd", x, none, kernel=False)


def test_a_tensor_scattered_into_itself(run_graph, evaluate):
    graph = Graph("self")
    x = graph.add_tensor(Tensor("x", DType.INT_32, (3,), TensorKind.APP_WRITE))
    a = add(graph, "ElementWiseAbs", [x], name="a")
    y = add(graph, "ScatterElements", [a, a, a], name="y", reduction=1)
    y.kind = TensorKind.APP_READ
    feeds = {"x": np.array([-2, 0, -1], np.int32)}
    np.testing.assert_array_equal(run_graph(graph, feeds).outputs["y"], [2, 1, 3])


def test_data_that_nothing_else_reads_are_updated_in_place(run_graph, evaluate):
    graph = Graph("place")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (64, 4), TensorKind.APP_WRITE))
    i = graph.add_tensor(Tensor.static("i", np.array([[5], [-1]], np.int32)))
    u = graph.add_tensor(Tensor("u", DType.FLOAT_32, (2, 4), TensorKind.APP_WRITE))
    a = add(graph, "ElementWiseNeg", [x], name="a")
    b = add(graph, "ScatterNd", [a, i, u], name="b")
    add(graph, "ElementWiseNeg", [b], name="y").kind = TensorKind.APP_READ
    feeds = {"x": elements(1, np.float32, 64, 4), "u": elements(2, np.float32, 2, 4)}
    ran = run_graph(graph, feeds)
    np.testing.assert_array_equal(ran.outputs["y"], evaluate(graph, feeds)["y"])
    assert ran.prepared.arena.nbytes == 64 * 4 * 4


def test_stored_integers_are_scattered_untouched(run_graph):
    graph, code = Graph("g"), ScaleOffset(1e-3, -3)
    u8 = DType.UFIXED_POINT_8
    x, u = (
        graph.add_tensor(Tensor(n, u8, (k,), TensorKind.APP_WRITE, encoding=code))
        for n, k in (("x", 3), ("u", 1))
    )
    i = graph.add_tensor(Tensor("i", DType.UINT_32, (1,), TensorKind.APP_WRITE))
    y = Tensor("y", u8, (3,), TensorKind.APP_READ, encoding=code)
    add(graph, "ScatterElements", [x, i, u], name="y", outputs=y)
    feeds = {
        "x": np.array([0, 255, 7], np.uint8),
        "i": np.array([2], np.uint32),
        "u": np.array([254], np.uint8),
    }
    ran = run_graph(graph, feeds)
    assert not ran.by_reference
    np.testing.assert_array_equal(ran.outputs["y"], [0, 255, 254])


@pytest.mark.parametrize(
    ("bad", "dtype"),
    [
        (2, np.int32),
        (-3, np.int32),
        (2**32 - 1, np.uint32),
        (2**32, np.int64),
        (2**32 + 1, np.int64),
        (-(2**32), np.int64),
        (-(2**63), np.int64),
        (2**64 - 1, np.uint64),
    ],
)
def test_out_of_range_names_the_first_and_its_axis(run_graph, op_graph, bad, dtype):
    x = np.ones((4, 2), np.float32)
    pairs = np.array([[0, 1], [3, bad], [1, 9]], dtype)
    column, updates = pairs[:, 1:].copy(), np.ones(3, np.float32)
    is_narrow = dtype in (np.int32, np.uint32)  # ScatterNd and those of elements take no others
    said = f"index {bad} is out of range on axis 1, which has 2 elements"
    for op_type, ins in (
        ("GatherNd", [x, pairs]),
        *([("ScatterNd", [x, pairs, updates])] if is_narrow else []),
    ):
        graph, feeds = op_graph(op_type, ins)
        with pytest.raises(BackendError, match=said) as caught:
            run_graph(graph, feeds)
        assert "'op'" in caught.value.where
    of_elements = {"GatherElements": [x, column], "ScatterElements": [x, column, updates[:, None]]}
    for op_type, ins in of_elements.items() if is_narrow else ():
        graph, feeds = op_graph(op_type, ins, axis=1)
        with pytest.raises(BackendError, match=said):
            run_graph(graph, feeds)


def test_known_indices_out_of_range_fail_in_the_run_only(prepare, run_graph, op_graph):
    ins = [np.ones(2, np.float32), np.array([0, 7], np.int32)]
    graph, feeds = op_graph("GatherElements", ins, static=(1,))
    prepare(graph)
    with pytest.raises((BackendError, OpError), match="index 7 is out of range on axis 0"):
        run_graph(graph, feeds)
