"""Local response normalization against its reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import _calls, local_response

# float32 sums of squares in another order, and a power by roots: a few roundings of 6e-8
ROUNDINGS = 2e-6


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    st.integers(0, 12),
    st.sampled_from([0.5, 0.75, 1.0, 0.3, -0.5]),
    st.integers(0, 99),
)
def test_lrn(check_op, shape, radius, beta, seed):
    params = {"radius": radius, "alpha": 0.3, "beta": beta, "bias": 1.5}
    check_op("Lrn", numbers(seed, *shape), rtol=ROUNDINGS, **params)


@pytest.mark.parametrize("height", [1, 7, 50])
def test_lrn_in_blocks(check_op, monkeypatch, height):
    monkeypatch.setattr(_calls, "MOST_BLOCKS", 100)
    monkeypatch.setattr(local_response, "block_size", lambda total: _calls.block_size(total, 30))
    check_op("Lrn", numbers(1, height, 6), radius=2, rtol=ROUNDINGS)


def test_lrn_of_infinity_touches_only_its_neighbors(run_graph, op_graph):
    x = np.ones((3, 6), np.float32)
    x[1, 5] = np.inf
    graph, feeds = op_graph("Lrn", [x], radius=1, alpha=1.0, beta=0.75)
    found = run_graph(graph, feeds).outputs["op"]
    assert np.isnan(found[1, 5])
    assert found[1, 4] == 0
    finite = np.delete(found.reshape(-1), [10, 11])  # the first of the next row too
    want = [3**-0.75, *[4**-0.75] * 4, 3**-0.75] * 3
    np.testing.assert_allclose(finite, np.delete(want, [10, 11]), rtol=ROUNDINGS)


def test_lrn_within_channels_is_left_to_the_reference(check_op):
    check_op("Lrn", numbers(1, 2, 4, 5, 3), kernel=False, radius=1, region=1)
