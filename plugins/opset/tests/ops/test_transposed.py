"""Transposed convolutions against their definition written out in loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array

Run = Callable[..., Any]
# float32 sums of at most 100 products of numbers near 1, in another order than the loops'
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

sizes = st.integers(1, 3)
small = st.integers(1, 2)


def spread(x: Array, w: Array, b: Array, p: dict[str, Any], group: int) -> Array:
    """Add each product where it belongs, one after the other, in float64."""
    axes = x.ndim - 2
    strides, extras = (np.reshape(p[n], -1) for n in ("stride", "output_padding"))
    dilations = p.get("dilation", (1,) * axes)
    pads = np.reshape(p["pad_amount"], (-1, 2))
    taps, (channels, each) = w.shape[:-2], w.shape[-2:]
    extents = [
        int(
            strides[a] * (x.shape[1 + a] - 1)
            + (taps[a] - 1) * dilations[a]
            + 1
            - sum(pads[a])
            + extras[a]
        )
        for a in range(axes)
    ]
    y = np.zeros((len(x), *extents, each * group)) + b
    for n, *place, c in np.ndindex(*x.shape):
        first = c // (channels // group) * each
        for *tap, k in np.ndindex(*taps, each):
            at = [place[a] * strides[a] + tap[a] * dilations[a] - pads[a][0] for a in range(axes)]
            if all(0 <= i < extent for i, extent in zip(at, extents, strict=True)):
                product = float(x[(n, *place, c)]) * float(w[(*tap, c, k)])
                y[(n, *at, first + k)] += product
    return y


@st.composite
def geometries(draw: st.DrawFn, axes: int) -> dict[str, Any]:
    """Draw params and sizes: tensors for several axes, scalars for one."""
    strides = [draw(sizes) for _ in range(axes)]
    dilations = [draw(small) if axes == 3 else 1 for _ in range(axes)]
    taps = [draw(sizes) for _ in range(axes)]
    extents = [draw(st.integers(1, 4 if axes < 3 else 3)) for _ in range(axes)]
    extras, pads = [], []
    for a in range(axes):
        extras.append(draw(st.integers(0, max(strides[a], dilations[a]) - 1)))
        full = strides[a] * (extents[a] - 1) + (taps[a] - 1) * dilations[a] + 1 + extras[a]
        before = draw(st.integers(0, min(full, 3)))
        pads.append((before, draw(st.integers(0, min(full - before, 3)))))
    g = {"stride": strides, "pad_amount": pads, "output_padding": extras}
    if axes == 1:
        g = {name: values[0] for name, values in g.items()}
    if axes == 3:
        g["dilation"] = dilations
    return {"filter": taps, "image": extents, "n": draw(st.integers(0, 2)), **g}


@pytest.mark.parametrize("axes", [1, 2, 3])
@settings(max_examples=40)  # the loops take their time
@given(data=st.data(), group=small, taken=small, each=small, seed=st.integers(0, 99))
def test_spreads(
    run_op: Run, axes: int, data: st.DataObject, group: int, taken: int, each: int, seed: int
) -> None:
    g = data.draw(geometries(axes))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((g.pop("n"), *g.pop("image"), taken * group), np.float32)
    w = rng.standard_normal((*g.pop("filter"), taken * group, each), np.float32)
    b = rng.standard_normal(each * group, np.float32)
    y = run_op(f"TransposeConv{axes}d", x, w, b, group=group, **g)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, spread(x, w, b, g, group), **TOLERANCE)


def test_is_the_adjoint_of_the_convolution(run_op: Run) -> None:
    # <Conv2d(x), y> = <x, TransposeConv2d(y)>: whole numbers, so exactly
    rng = np.random.default_rng(3)
    params = {"stride": (2, 3), "pad_amount": [(1, 0), (2, 1)]}
    x = rng.integers(-3, 4, (2, 8, 9, 4)).astype(np.float64)
    w = rng.integers(-3, 4, (3, 2, 4, 5)).astype(np.float64)
    there = run_op("Conv2d", x, w, **params)
    y = rng.integers(-3, 4, there.shape).astype(np.float64)
    # as many more elements as the convolution's rounding left out
    left = [(8 + 1 - 3) % 2, (9 + 3 - 2) % 3]
    back = run_op("TransposeConv2d", y, w.swapaxes(2, 3), output_padding=left, **params)
    assert back.shape == x.shape
    assert (there * y).sum() == (x * back).sum()


def test_output_padding_shows_what_the_padding_took(run_op: Run) -> None:
    # The fact that surprises: it does not add zeros, it takes off less.
    x, w = np.ones((1, 2, 1), np.float32), np.array([1, 2, 3], np.float32).reshape(3, 1, 1)
    params = {"stride": 2, "pad_amount": (0, 1)}
    np.testing.assert_array_equal(run_op("TransposeConv1d", x, w, **params).ravel(), [1, 2, 4, 2])
    more = run_op("TransposeConv1d", x, w, output_padding=1, **params)
    np.testing.assert_array_equal(more.ravel(), [1, 2, 4, 2, 3])


def test_nothing_in_gives_the_bias(run_op: Run) -> None:
    x, w, b = np.zeros((2, 0, 3)), np.ones((4, 3, 2)), np.array([5.0, 7.0])
    y = run_op("TransposeConv1d", x, w, b, stride=2, pad_amount=(0, 0))
    np.testing.assert_array_equal(y, np.broadcast_to(b, (2, 2, 2)))


@pytest.mark.parametrize(
    ("x", "w", "params", "said"),
    [
        ((1, 5, 5, 4), (3, 3, 3, 8), {}, r"4 channels, but filters \(3, 3, 3, 8\) take 3"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"group": 3}, "4 input channels do not divide into 3 groups"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"group": 0}, "into 0 groups"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"output_padding": (1, 2)}, r"\(1, 2\) must be less than"),
        ((1, 5, 5, 4), (3, 3, 4, 8), {"stride": (0, 2)}, r"at least 1, but they are \(0, 2\)"),
        ((1, 1, 1, 4), (1, 1, 4, 8), {"pad_amount": [(1, 1), (0, 0)]}, "removes more than"),
        ((5, 5, 4), (3, 3, 4, 8), {}, r"rank 4, but its shape is \(5, 5, 4\)"),
    ],
)
def test_refuses(
    run_op: Run, x: tuple[int, ...], w: tuple[int, ...], params: dict[str, Any], said: str
) -> None:
    settings = {"stride": (2, 2), "pad_amount": [(0, 0), (0, 0)]} | params
    with pytest.raises(OpError, match=said):
        run_op("TransposeConv2d", np.zeros(x, np.float32), np.zeros(w, np.float32), **settings)


def test_refuses_a_bias_of_one_group(run_op: Run) -> None:
    x, w = np.zeros((1, 3, 4), np.float32), np.zeros((1, 4, 3), np.float32)
    with pytest.raises(OpError, match=r"bias in\[2\] must have shape \(6,\)"):
        run_op(
            "TransposeConv1d",
            x,
            w,
            np.zeros(3, np.float32),
            stride=1,
            pad_amount=(0, 0),
            group=2,
        )
