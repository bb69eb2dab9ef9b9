"""Convolutions against their definition written out in loops."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array

Run = Callable[..., Any]
# float32 sums of at most 300 products of numbers near 1, in another order than the loops'
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

sizes = st.integers(1, 3)


def looped(x: Array, w: Array, b: Array, p: dict[str, Any], group: int) -> Array:
    """Sum over the taps of every output, one output after the other, in float64."""
    axes = x.ndim - 2
    strides, dilations = (np.reshape(p[name], -1) for name in ("stride", "dilation"))
    pads = np.reshape(p["pad_amount"], (-1, 2))
    extents, taps = x.shape[1:-1], w.shape[:-2]
    taken, made = w.shape[-2:]
    counts = [
        (extents[a] + sum(pads[a]) - ((taps[a] - 1) * dilations[a] + 1)) // strides[a] + 1
        for a in range(axes)
    ]
    y = np.zeros((len(x), *counts, made))
    for n, *place, k in np.ndindex(*y.shape):
        first = k // (made // group) * taken
        total = float(b[k])
        for *tap, j in np.ndindex(*taps, taken):
            at = [place[a] * strides[a] + tap[a] * dilations[a] - pads[a][0] for a in range(axes)]
            if all(0 <= i < extent for i, extent in zip(at, extents, strict=True)):
                total += float(x[(n, *at, first + j)]) * float(w[(*tap, j, k)])
        y[(n, *place, k)] = total
    return y


def geometries(axes: int, most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Draw params and sizes: tensors for several axes, scalars for one."""

    def per_axis(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return each if axes == 1 else st.tuples(*[each] * axes)

    pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.fixed_dictionaries(
        {
            "filter": st.tuples(*[sizes] * axes),
            "stride": per_axis(sizes),
            "dilation": per_axis(st.integers(1, 2)),
            "pad_amount": per_axis(pads),
            "image": st.tuples(*[st.integers(5, most)] * axes),
            "n": st.integers(0, 2),
        }
    )


@pytest.mark.parametrize(("axes", "most"), [(1, 9), (2, 7), (3, 5)])
@settings(max_examples=30)  # the loops take their time
@given(data=st.data(), seed=st.integers(0, 99))
def test_convolution(run_op: Run, axes: int, most: int, data: st.DataObject, seed: int) -> None:
    g = data.draw(geometries(axes, most))
    group, taken, each = (data.draw(sizes if axes < 3 else st.integers(1, 2)) for _ in range(3))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((g.pop("n"), *g.pop("image"), taken * group), np.float32)
    w = rng.standard_normal((*g.pop("filter"), taken, each * group), np.float32)
    b = rng.standard_normal(each * group, np.float32)
    y = run_op(f"Conv{axes}d", x, w, b, group=group, **g)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, looped(x, w, b, g, group), **TOLERANCE)


@pytest.mark.parametrize(("axes", "most"), [(1, 9), (2, 7)])
@settings(max_examples=50)
@given(data=st.data(), channels=sizes, each=sizes, seed=st.integers(0, 99))
def test_depthwise(
    run_op: Run, axes: int, most: int, data: st.DataObject, channels: int, each: int, seed: int
) -> None:
    g = data.draw(geometries(axes, most))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((g.pop("n"), *g.pop("image"), channels), np.float32)
    w = rng.standard_normal((*g.pop("filter"), 1, channels * each), np.float32)
    b = rng.standard_normal(channels * each, np.float32)
    y = run_op(f"DepthWiseConv{axes}d", x, w, b, **g)
    # a depthwise convolution is one with a group for each channel
    np.testing.assert_allclose(y, looped(x, w, b, g, channels), **TOLERANCE)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_other_types_keep_theirs(run_op: Run, dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(1)
    # whole numbers whose sums all of the types hold
    x, w = (rng.integers(-3, 4, s).astype(dtype) for s in ((1, 6, 4), (3, 4, 2)))
    g = {"stride": 1, "pad_amount": (1, 0), "dilation": 1}
    y = run_op("Conv1d", x, w, **g)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, looped(x, w, np.zeros(2), g, 1))
    depthwise = run_op("DepthWiseConv1d", x, w[:, :1].repeat(2, axis=2), **g)
    assert depthwise.dtype == dtype


def test_left_out_bias_is_zero(run_op: Run, rng: np.random.Generator) -> None:
    x, w = rng.random((1, 4, 4, 2), np.float32), rng.random((3, 3, 2, 4), np.float32)
    params = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    with_zeros = run_op("Conv2d", x, w, np.zeros(4, np.float32), **params)
    np.testing.assert_array_equal(run_op("Conv2d", x, w, **params), with_zeros)


@pytest.mark.parametrize(
    ("x", "w", "params", "said"),
    [
        ((1, 5, 5, 4), (3, 3, 3, 8), {}, r"4 channels, but filters \(3, 3, 3, 8\) in 1 .* take 3"),
        ((1, 5, 5, 4), (3, 3, 2, 7), {"group": 2}, "7 output channels do not divide into 2 groups"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"group": 0}, "into 0 groups"),
        ((1, 5, 5, 4), (6, 3, 4, 8), {}, "window of 6 does not fit spatial axis 0, which has 5"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"stride": (1, 0)}, r"at least 1, but they are \(1, 0\)"),
        ((5, 5, 4), (3, 3, 4, 8), {}, r"rank 4, but its shape is \(5, 5, 4\)"),
    ],
)
def test_conv2d_refuses(
    run_op: Run, x: tuple[int, ...], w: tuple[int, ...], params: dict[str, Any], said: str
) -> None:
    settings = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]} | params
    with pytest.raises(OpError, match=said):
        run_op("Conv2d", np.zeros(x, np.float32), np.zeros(w, np.float32), **settings)


def test_refusals_name_bias_and_multiples(run_op: Run) -> None:
    x, w = np.zeros((1, 3, 3, 4), np.float32), np.zeros((1, 1, 1, 6), np.float32)
    params = {"stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}
    with pytest.raises(OpError, match="6 output channels are not a multiple of 4 input channels"):
        run_op("DepthWiseConv2d", x, w, **params)
    bias = np.zeros(3, np.float32)
    with pytest.raises(OpError, match=r"bias in\[2\] must have shape \(8,\)"):
        run_op("DepthWiseConv2d", x, np.zeros((1, 1, 1, 8), np.float32), bias, **params)


@pytest.mark.parametrize(
    ("op_type", "x", "w", "said"),
    [
        ("Conv1d", (1, 5, 5, 4), (3, 4, 8), r"rank 3, but its shape is \(1, 5, 5, 4\)"),
        ("Conv1d", (1, 2, 4), (3, 4, 8), "window of 3 does not fit spatial axis 0, which has 2"),
        ("DepthWiseConv1d", (1, 5, 4), (3, 4, 8), r"dimension 1 of the filters must be 1"),
        ("DepthWiseConv1d", (1, 5, 0), (3, 1, 0), "not a multiple of 0 input channels"),
        ("DepthWiseConv1d", (1, 5, 4), (1, 3, 1, 4), "filters.* must have rank 3"),
    ],
)
def test_one_axis_refuses(
    run_op: Run, op_type: str, x: tuple[int, ...], w: tuple[int, ...], said: str
) -> None:
    with pytest.raises(OpError, match=said):
        run_op(
            op_type, np.zeros(x, np.float32), np.zeros(w, np.float32), stride=1, pad_amount=(0, 0)
        )


def test_three_axes_refuse_an_image(run_op: Run) -> None:
    params = {"stride": (1, 1, 1), "pad_amount": [(0, 0)] * 3}
    x, w = np.zeros((1, 4, 4, 2), np.float32), np.zeros((1, 1, 1, 2, 2), np.float32)
    with pytest.raises(OpError, match=r"in\[0\] must have rank 5"):
        run_op("Conv3d", x, w, **params)


def test_grouped_is_the_groups_side_by_side(run_op: Run, rng: np.random.Generator) -> None:
    x, w = rng.random((1, 6, 6, 6), np.float32), rng.random((2, 2, 2, 9), np.float32)
    params = {"stride": (2, 1), "pad_amount": [(1, 0), (0, 1)]}
    whole = run_op("Conv2d", x, w, group=3, **params)
    parts = [
        run_op("Conv2d", xs, ws, **params)
        for xs, ws in itertools.zip_longest(np.split(x, 3, axis=3), np.split(w, 3, axis=3))
    ]
    np.testing.assert_allclose(whole, np.concatenate(parts, axis=3), **TOLERANCE)
