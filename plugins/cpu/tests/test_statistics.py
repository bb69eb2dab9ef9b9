"""Reductions, softmax and normalizations against their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import _calls, _instance, normalization

shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)
filled = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


@st.composite
def with_axes(draw):
    shape = draw(shapes)
    places = list(range(len(shape)))
    return shape, draw(st.lists(st.sampled_from(places), unique=True) if places else st.just([]))


@pytest.mark.parametrize(
    "op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare"]
)
@settings(max_examples=30)
@given(with_axes(), st.booleans(), st.integers(0, 99))
def test_reductions(check_op, whole, op_type, shape_axes, keeps, seed):
    shape, axes = shape_axes
    # the sums of whole numbers are exact, and a mean is one division more: no tolerance
    check_op(op_type, whole(seed, *shape), axes=np.array(axes, np.uint32), keep_dims=keeps)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("length", [1, 5, 63, 64, 300])
def test_extremes_of_rows(check_op, op_type, length):
    x = numbers(length, 2, 1001, length)
    x[0, 7, length // 2] = np.nan
    x[1, 3], x[1, 5] = np.inf, -np.inf
    check_op(op_type, x, axes=np.array([2], np.uint32), keep_dims=True)


@pytest.mark.parametrize("length", [100, 4096, 5000])
def test_sums_of_long_rows(check_op, whole, length):
    check_op("ReduceSum", whole(3, 5, length), axes=np.array([1], np.uint32))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(6,), (4, 5, 3), (2, 9, 600)])
def test_cumulative_sums(check_op, whole, shape, exclusive, reverse):
    for axis in range(len(shape)):
        params = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        check_op("CumulativeSum", whole(1, *shape), **params)


def test_nothing_to_reduce_is_left_to_the_reference(check_op):
    out = check_op("ReduceSum", np.zeros((3, 0), np.float32), kernel=False, axes=[1])
    np.testing.assert_array_equal(out["y0"], np.zeros(3))


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@settings(max_examples=50)
@given(filled, st.data(), st.sampled_from([1.0, 0.5, 2.0, -1.0]), st.integers(0, 99))
def test_softmax(check_op, op_type, shape, data, beta, seed):
    axis = data.draw(st.integers(0, len(shape) - 1))
    # the same functions in the same order: beta may be rounded once more
    check_op(op_type, numbers(seed, *shape), axis=axis, beta=beta, rtol=1e-6, atol=1e-6)


def test_log_softmax_far_out(check_op):
    check_op("LogSoftmax", np.array([[1e30, 0, -1e30], [-np.inf, 0, 0]], np.float32), axis=1)


@pytest.mark.parametrize("shape", [(700, 64), (3, 5000), (2, 3, 400)])
@pytest.mark.parametrize("beta", [1.0, 0.5, -1.0])
def test_log_softmax_of_long_rows(check_op, shape, beta):
    x = numbers(4, *shape)
    x.reshape(-1, shape[-1])[1, :2] = np.nan, np.inf
    x.reshape(-1, shape[-1])[2, 7] = -np.inf
    check_op("LogSoftmax", x, axis=len(shape) - 1, beta=beta, rtol=1e-6, atol=1e-6)


def test_softmax_far_out(run_graph, op_graph):
    x = np.array([[1e30, 0, -1e30], [-1e38, -1e38, -1e38], [-np.inf, 0, 0]], np.float32)
    graph, feeds = op_graph("Softmax", [x])
    third, half = np.float32(1) / np.float32(3), np.float32(0.5)
    expected = np.array([[1, 0, 0], [third] * 3, [0, half, half]], np.float32)
    np.testing.assert_array_equal(run_graph(graph, feeds).outputs["op"], expected)


@pytest.mark.parametrize("op_type", ["LayerNorm", "RmsNorm"])
@settings(max_examples=50)
@given(filled, st.data(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_row_norms(check_op, op_type, shape, data, has_gamma, has_beta, seed):
    first = data.draw(st.integers(0, len(shape) - 1))
    axes = np.arange(first, len(shape), dtype=np.uint32)
    gamma = numbers(seed + 1, *shape[first:]) if has_gamma else None
    beta = numbers(seed + 2, *shape[first:]) if has_beta else None
    params = {"axes": axes, "epsilon": 0.01}
    # some hundred terms in another order: a few roundings of 6e-8, against values of about 2
    check_op(op_type, numbers(seed, *shape), gamma, beta, rtol=1e-5, atol=1e-5, **params)


@settings(max_examples=30)
@given(filled, st.data(), st.integers(0, 99))
def test_l2_norm(check_op, shape, data, seed):
    first = data.draw(st.integers(0, len(shape) - 1))
    axes = np.arange(first, len(shape), dtype=np.uint32)[::-1]  # in any order
    # a sum of some hundred squares in another order
    check_op("L2Norm", numbers(seed, *shape), axes=axes, rtol=1e-5)
    check_op("L2Norm", numbers(seed, *shape), axis=len(shape) - 1, epsilon=3.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "axes"),
    [
        *(("LayerNorm", axes) for axes in ([1], [2, 1], [0, 2])),
        *(("RmsNorm", axes) for axes in ([1], [2, 1], [0, 2])),
        *(("L2Norm", axes) for axes in ([1], [0, 2])),  # the order of axes does not matter
    ],
)
def test_norms_over_other_axes_are_left_to_the_reference(check_op, op_type, axes):
    check_op(op_type, numbers(1, 2, 3, 4), kernel=False, axes=np.array(axes, np.uint32))


batches = st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple)


@settings(max_examples=50)
@given(batches, st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 99))
def test_item_norms(check_op, shape, size, has_gamma, has_beta, seed):
    channels = shape[-1] * size
    x = numbers(seed, *shape[:-1], channels)
    gamma = numbers(seed + 1, channels)
    beta = numbers(seed + 2, channels) if has_beta else None
    # some hundred terms in another order: a few roundings of 6e-8, against values of about 2
    near = {"rtol": 1e-5, "atol": 1e-5}
    check_op("InstanceNorm", x, gamma, beta, epsilon=0.01, **near)
    factors = gamma if has_gamma else None, beta
    check_op("GroupNorm", x, *factors, epsilon=0.01, group=shape[-1], **near)


@pytest.mark.parametrize("params", [{"mode": 1}, {"region": 2}, {"normalize_variance": False}])
def test_unusual_instance_norms_are_left_to_the_reference(check_op, params):
    check_op("InstanceNorm", numbers(1, 2, 3, 4), numbers(2, 4), kernel=False, **params)


def test_item_norms_of_far_numbers_keep_their_digits(run_graph, op_graph):
    # 90000 numbers around 1000: one long float32 sum of them is off by more than their spread
    x = numbers(1, 1, 300, 300, 2) + 1000
    graph, feeds = op_graph("InstanceNorm", [x, np.ones(2, np.float32)], epsilon=1e-5)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(axis=(1, 2))) / np.sqrt(wide.var(axis=(1, 2)) + 1e-5)
    found = run_graph(graph, feeds).outputs["op"]
    # the mean is off by some roundings of 1000 (6e-5 each), against a deviation of 2
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@settings(max_examples=30)
@given(filled, st.booleans(), st.booleans(), st.integers(0, 99))
def test_batchnorm(check_op, whole, shape, has_bias, is_static, seed):
    weight = whole(seed + 1, shape[-1])
    bias = whole(seed + 2, shape[-1]) if has_bias else None
    static = (1, 2) if is_static else ()
    check_op("Batchnorm", whole(seed, *shape), weight, bias, static=static)


def test_rows_in_blocks(check_op, whole, monkeypatch):
    monkeypatch.setattr(_calls, "MOST_BLOCKS", 100)
    monkeypatch.setattr(normalization, "block_size", lambda total: _calls.block_size(total, 10))
    check_op("Batchnorm", whole(1, 13, 4), whole(2, 4), whole(3, 4))
    axes = np.array([1], np.uint32)
    near = {"rtol": 1e-5, "atol": 1e-5}
    check_op("LayerNorm", numbers(1, 13, 4), numbers(2, 4), axes=axes, **near)
    check_op("RmsNorm", numbers(1, 13, 4), numbers(2, 4), axes=axes, **near)
    check_op("L2Norm", numbers(1, 13, 4), axes=axes, **near)
    monkeypatch.setattr(_instance, "block_size", lambda total: _calls.block_size(total, 10))
    check_op("InstanceNorm", numbers(1, 2, 13, 4), numbers(2, 4), epsilon=0.01, **near)
    check_op("GroupNorm", numbers(1, 2, 13, 4), group=2, epsilon=0.01, **near)
