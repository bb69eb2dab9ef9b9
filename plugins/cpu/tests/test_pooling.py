"""Pooling against the references."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import pooling

small = st.integers(1, 4)
pad = st.integers(0, 3)


@st.composite
def pools(draw, axes):
    def each(values):
        return [draw(values) for _ in range(axes)]

    size, stride, pads = each(small), each(small), each(st.tuples(pad, pad))
    extents = each(st.integers(1, 9 if axes == 2 else 5))
    for extent, f, pair in zip(extents, size, pads, strict=True):
        assume(f <= extent + sum(pair))
    return extents, {
        "filter_size": size,
        "stride": stride,
        "pad_amount": pads,
        "rounding_mode": draw(st.integers(0, 1)),
    }


@pytest.mark.parametrize("axes", [2, 3])
@settings(max_examples=80)
@given(st.data(), st.integers(1, 2), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_max(check_op, whole, axes, data, batch, channels, is_negative, seed):
    extents, params = data.draw(pools(axes))
    x = whole(seed, batch, *extents, channels)
    # below 0 everywhere, the padding shows
    check_op(f"PoolMax{axes}d", x - 5 if is_negative else x, **params)


@pytest.mark.parametrize("axes", [2, 3])
@settings(max_examples=80)
@given(st.data(), st.integers(1, 2), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_average(check_op, whole, axes, data, batch, channels, counts_edges, seed):
    extents, params = data.draw(pools(axes))
    x = whole(seed, batch, *extents, channels)
    # the sums of whole numbers are exact, and both divide by the same count: no tolerance
    check_op(f"PoolAvg{axes}d", x, count_pad_for_edges=counts_edges, **params)


@pytest.mark.parametrize("extents", [(5, 7), (3, 4, 5)])
def test_average_over_all(check_op, whole, extents):
    axes = len(extents)
    x = whole(1, 2, *extents, 3)
    params = {"filter_size": extents, "stride": (1,) * axes, "pad_amount": [[0, 0]] * axes}
    out = check_op(f"PoolAvg{axes}d", x, **params)
    wanted = x.mean(tuple(range(1, axes + 1)), keepdims=True)
    # inside the arena the op is between two negations
    np.testing.assert_allclose(out["y0"], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op_type", ["PoolMax2d", "PoolAvg2d"])
def test_rows_in_pieces(check_op, whole, monkeypatch, op_type):
    monkeypatch.setattr(pooling, "_BLOCK", 1)
    pads = [[1, 1], [1, 0]]
    check_op(op_type, whole(1, 2, 9, 8, 3), filter_size=(3, 2), stride=(2, 1), pad_amount=pads)
    check_op(
        op_type.replace("2d", "3d"),
        whole(1, 1, 5, 6, 4, 3),
        filter_size=(2, 3, 2),
        stride=(1, 2, 1),
        pad_amount=[[1, 0], *pads],
    )


def test_nan_is_the_greatest(check_op):
    x = np.zeros((1, 3, 3, 1), np.float32)
    x[0, 1, 1, 0] = np.nan
    pads = [[0, 0], [0, 0]]
    out = check_op("PoolMax2d", x, filter_size=(2, 2), stride=(1, 1), pad_amount=pads)
    assert np.isnan(out["y0"]).all()
