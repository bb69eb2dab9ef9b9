"""Im2Col and Col2Im against their definitions written out in loops."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

Run = Callable[..., Any]
Evaluate = Callable[[Graph, Mapping[str, Array]], dict[str, Array]]

pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
params = st.fixed_dictionaries(
    {
        "kernel_size": pairs,
        "stride": pairs,
        "pad_amount": st.tuples(pads, pads),
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
    }
)
images = st.tuples(st.integers(0, 2), st.integers(5, 7), st.integers(5, 7), st.integers(0, 3))
UNPADDED = {"kernel_size": (2, 2), "stride": (1, 1), "pad_amount": [(0, 0), (0, 0)]}


def columns_of(x: Array, g: dict[str, Any]) -> Array:
    """Collect one element of one window after the other."""
    (top, bottom), (left, right) = g["pad_amount"]
    (kh, kw), (sh, sw), (dh, dw) = g["kernel_size"], g["stride"], g["dilation"]
    n, h, w, channels = x.shape
    oh = (top + h + bottom - ((kh - 1) * dh + 1)) // sh + 1
    ow = (left + w + right - ((kw - 1) * dw + 1)) // sw + 1
    y = np.zeros((n, channels * kh * kw, oh * ow), x.dtype)
    for c, u, v, r, s in np.ndindex(channels, kh, kw, oh, ow):
        row, column = r * sh + u * dh - top, s * sw + v * dw - left
        if 0 <= row < h and 0 <= column < w:
            y[:, (c * kh + u) * kw + v, r * ow + s] = x[:, row, column, c]
    return y


@settings(max_examples=50)  # the loops take their time
@given(images, params, st.sampled_from([np.float32, np.float16, np.int64, np.bool_]))
def test_im2col(run_op: Run, shape: tuple[int, ...], g: dict[str, Any], dtype: Any) -> None:
    x = np.random.default_rng(1).integers(0, 99, shape).astype(dtype)
    y = run_op("Im2Col", x, **g)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, columns_of(x, g))


@settings(max_examples=50)
@given(images, params, st.sampled_from([np.float32, np.float64, np.int32]))
def test_col2im(run_op: Run, shape: tuple[int, ...], g: dict[str, Any], dtype: Any) -> None:
    # what each element of a column goes to is found by sending the elements' numbers through
    n, height, width, channels = shape
    numbers = np.arange(1, height * width * channels + 1).reshape(1, height, width, channels)
    places = columns_of(numbers, g)[0]
    x = np.random.default_rng(2).integers(-9, 9, (n, *places.shape)).astype(dtype)
    want = np.zeros((n, numbers.size + 1), dtype)
    for i, j in np.ndindex(*places.shape):
        want[:, places[i, j]] += x[:, i, j]  # whole numbers: every order gives the same
    y = run_op("Col2Im", x, specs=(Spec(DType.of(x.dtype), shape),), **g)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, want[:, 1:].reshape(shape))


def test_padding_of_a_fixed_point_image_is_its_zero(evaluate: Evaluate) -> None:
    graph, encoding = Graph("one"), ScaleOffset(0.5, -7)
    x = graph.add_tensor(
        Tensor("x", DType.UFIXED_POINT_8, (1, 1, 1, 1), TensorKind.APP_WRITE, encoding=encoding)
    )
    settings = UNPADDED | {"pad_amount": [(1, 0), (0, 1)]}
    y = add(graph, "Im2Col", [x], name="y", **settings)
    assert y.encoding == encoding  # it moves with the data
    values = evaluate(graph, {"x": np.full((1, 1, 1, 1), 200, np.uint8)})
    np.testing.assert_array_equal(values["y"].ravel(), [7, 7, 200, 7])


@pytest.mark.parametrize(
    ("x", "out", "said"),
    [
        ((1, 8, 9), None, "output must be declared"),
        ((1, 7, 9), (1, 4, 4, 2), "7 rows of .* not a multiple of the 4 of a window"),
        ((1, 8, 9), (1, 4, 5, 2), r"9 columns, but an image of \(4, 5\) has 3 x 4 windows"),
        ((1, 8, 9), (1, 1, 9, 2), "window of 2 does not fit spatial axis 0"),
        ((1, 8, 9), (4, 4, 2), r"out\[0\] must have rank 4"),
        ((8, 9), (1, 4, 4, 2), r"in\[0\] must have rank 3"),
    ],
)
def test_col2im_refuses(
    run_op: Run, x: tuple[int, ...], out: tuple[int, ...] | None, said: str
) -> None:
    specs = () if out is None else (Spec(DType.FLOAT_32, out),)
    with pytest.raises(OpError, match=said):
        run_op("Col2Im", np.zeros(x, np.float32), specs=specs, **UNPADDED)


def test_im2col_refuses(run_op: Run) -> None:
    with pytest.raises(OpError, match="rank 4"):
        run_op("Im2Col", np.zeros((4, 4, 1), np.float32), **UNPADDED)
    with pytest.raises(OpError, match="window of 2 does not fit spatial axis 1, which has 1"):
        run_op("Im2Col", np.zeros((1, 4, 1, 1), np.float32), **UNPADDED)
