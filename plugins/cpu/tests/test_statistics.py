"""Reductions, softmax and normalizations against their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_cpu.kernels import _calls, normalization

shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)
filled = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


@st.composite
def with_axes(draw):
    shape = draw(shapes)
    places = list(range(len(shape)))
    return shape, draw(st.lists(st.sampled_from(places), unique=True) if places else st.just([]))


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax"])
@settings(max_examples=30, deadline=None)
@given(with_axes(), st.booleans(), st.integers(0, 99))
def test_reductions(check_op, whole, op_type, shape_axes, keeps, seed):
    shape, axes = shape_axes
    # the sums of whole numbers are exact, and a mean is one division more: no tolerance
    check_op(op_type, whole(seed, *shape), axes=np.array(axes, np.uint32), keep_dims=keeps)


def test_nothing_to_reduce_is_left_to_the_reference(check_op):
    out = check_op("ReduceSum", np.zeros((3, 0), np.float32), kernel=False, axes=[1])
    np.testing.assert_array_equal(out["y0"], np.zeros(3))


@settings(max_examples=50, deadline=None)
@given(filled, st.data(), st.sampled_from([1.0, 0.5, 2.0]), st.integers(0, 99))
def test_softmax(check_op, shape, data, beta, seed):
    axis = data.draw(st.integers(0, len(shape) - 1))
    # the same functions in the same order: beta may be rounded once more
    check_op("Softmax", numbers(seed, *shape), axis=axis, beta=beta, rtol=1e-6)


def test_softmax_far_out(run_graph, op_graph):
    x = np.array([[1e30, 0, -1e30], [-1e38, -1e38, -1e38], [-np.inf, 0, 0]], np.float32)
    graph, feeds = op_graph("Softmax", [x])
    third, half = np.float32(1) / np.float32(3), np.float32(0.5)
    expected = np.array([[1, 0, 0], [third] * 3, [0, half, half]], np.float32)
    np.testing.assert_array_equal(run_graph(graph, feeds).outputs["op"], expected)


@settings(max_examples=50, deadline=None)
@given(filled, st.data(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_layer_norm(check_op, shape, data, has_gamma, has_beta, seed):
    first = data.draw(st.integers(0, len(shape) - 1))
    axes = np.arange(first, len(shape), dtype=np.uint32)
    gamma = numbers(seed + 1, *shape[first:]) if has_gamma else None
    beta = numbers(seed + 2, *shape[first:]) if has_beta else None
    params = {"axes": axes, "epsilon": 0.01}
    # some hundred terms in another order: a few roundings of 6e-8, against values of about 2
    check_op("LayerNorm", numbers(seed, *shape), gamma, beta, rtol=1e-5, atol=1e-5, **params)


@pytest.mark.parametrize("axes", [[1], [2, 1], [0, 2]])
def test_layer_norm_over_other_axes_is_left_to_the_reference(check_op, axes):
    check_op("LayerNorm", numbers(1, 2, 3, 4), kernel=False, axes=np.array(axes, np.uint32))


@settings(max_examples=30, deadline=None)
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
    check_op("LayerNorm", numbers(1, 13, 4), numbers(2, 4), axes=axes, rtol=1e-5, atol=1e-5)
