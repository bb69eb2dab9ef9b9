"""Pooling against the references."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail_cpu.kernels import pooling

small = st.integers(1, 4)
pad = st.integers(0, 3)


@st.composite
def pools(draw):
    size, stride = (draw(small), draw(small)), (draw(small), draw(small))
    pads = [[draw(pad), draw(pad)], [draw(pad), draw(pad)]]
    extents = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    for extent, f, pair in zip(extents, size, pads, strict=True):
        assume(f <= extent + sum(pair))
    rounding = draw(st.integers(0, 1))
    return extents, {
        "filter_size": size,
        "stride": stride,
        "pad_amount": pads,
        "rounding_mode": rounding,
    }


@settings(max_examples=80, deadline=None)
@given(pools(), st.integers(1, 2), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_max(check_op, whole, pool, batch, channels, is_negative, seed):
    extents, params = pool
    x = whole(seed, batch, *extents, channels)
    # below 0 everywhere, the padding shows
    check_op("PoolMax2d", x - 5 if is_negative else x, **params)


@settings(max_examples=80, deadline=None)
@given(pools(), st.integers(1, 2), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_average(check_op, whole, pool, batch, channels, counts_edges, seed):
    extents, params = pool
    x = whole(seed, batch, *extents, channels)
    # the sums of whole numbers are exact, and both divide by the same count: no tolerance
    check_op("PoolAvg2d", x, count_pad_for_edges=counts_edges, **params)


def test_average_over_all(check_op, whole):
    x = whole(1, 2, 5, 7, 3)
    params = {"filter_size": (5, 7), "stride": (1, 1), "pad_amount": [[0, 0], [0, 0]]}
    out = check_op("PoolAvg2d", x, **params)
    # inside the arena the op stands between two negations
    np.testing.assert_allclose(out["y0"], x.mean((1, 2), keepdims=True), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op_type", ["PoolMax2d", "PoolAvg2d"])
def test_rows_in_pieces(check_op, whole, monkeypatch, op_type):
    monkeypatch.setattr(pooling, "_BLOCK", 1)
    pads = [[1, 1], [1, 0]]
    check_op(op_type, whole(1, 2, 9, 8, 3), filter_size=(3, 2), stride=(2, 1), pad_amount=pads)


def test_nan_is_the_greatest(check_op):
    x = np.zeros((1, 3, 3, 1), np.float32)
    x[0, 1, 1, 0] = np.nan
    pads = [[0, 0], [0, 0]]
    out = check_op("PoolMax2d", x, filter_size=(2, 2), stride=(1, 1), pad_amount=pads)
    assert np.isnan(out["y0"]).all()
