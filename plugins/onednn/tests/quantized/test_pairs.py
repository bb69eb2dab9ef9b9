"""Weights of which neighboring channels would saturate without VNNI, and their split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType
from dovetail_onednn.quantized.parts import without_saturation

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8


def pair_sums(levels: Any) -> Any:
    """Return sums of neighbors of one sign, the largest magnitude of a pair."""
    rows = levels.astype(np.int64)
    pairs = rows[: len(rows) // 2 * 2].reshape(-1, 2, rows.shape[-1])
    return max(np.maximum(pairs, 0).sum(1).max(), -np.minimum(pairs, 0).sum(1).min())


def test_split_weights_are_their_sums_and_fit() -> None:
    levels = np.array([[127, -128, 64, 90], [127, -128, 64, -90], [1, 0, -5, 90], [2, 0, -7, 39]])
    found = without_saturation(levels.astype(np.int8))
    assert found is not None
    assert (found.dtype, found.shape) == (np.int8, (6, 4))
    copied = np.zeros_like(levels)
    copied[::2] = found[4:]
    np.testing.assert_array_equal(found[:4] + copied, levels)
    np.testing.assert_array_equal(found[4:], [[126, -128, 0, 0], [0, 0, 0, 1]])
    assert pair_sums(found) <= 128


def test_weights_without_saturation_stay() -> None:
    levels = np.array([[127, -128, 64], [1, 127, 64]], np.int8)
    np.testing.assert_array_equal(without_saturation(levels), levels)


@pytest.mark.parametrize("levels", [np.full((4, 1), 127), np.full((4, 1), -128), np.ones((3, 1))])
def test_excess_that_saturates_again_is_declined(levels: Any) -> None:
    assert without_saturation(levels.astype(np.int8)) is None


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("dtype", "zero"), [(U8, 0), (U8, 119), (S8, -3)])
@pytest.mark.parametrize("spread", [16.0, 32.0])
def test_convolution(new_network: Any, group: int, dtype: DType, zero: int, spread: float) -> None:
    """Some pairs saturate with 32, hardly any with 16."""
    rng = np.random.default_rng(3)
    for window, channels, units in (((3, 3), 20, 24), ((1, 1), 66, 40)):
        net = new_network(extreme=True)
        x = net.input("x", (1, 9, 8, channels * group), dtype, zero)
        drawn = rng.normal(0, spread, (*window, channels, units * group))
        stored = np.clip(np.rint(drawn), -128, 127).astype(np.int8)
        stored[0, 0, :2, 0] = (127, 127) if spread > 20 else (100, 28)
        scales = rng.uniform(0.001, 0.01, units * group).astype(np.float32)
        w = net.static("w", stored, S8, AxisScaleOffset(3, scales, np.zeros(len(scales), np.int32)))
        bias = net.bias("b", units * group)
        pads = [(window[0] // 2, window[0] // 2)] * 2
        params = {"stride": (1, 1), "dilation": (1, 1), "pad_amount": pads, "group": group}
        y = net.add("Conv2d", x, w, bias, name="y", scale=3.0, zero=128, **params)
        net.check(y, engine=True)


@pytest.mark.parametrize("channels", [1, 3, 8, 20, 37, 64])
@pytest.mark.parametrize("zero", [0, 119])
@pytest.mark.parametrize("extreme", [True, False])
def test_depthwise(new_network: Any, channels: int, zero: int, *, extreme: bool) -> None:
    net = new_network(extreme=extreme)
    x = net.input("x", (1, 11, 10, channels), U8, zero)
    w = net.weights("w", (3, 3, 1, channels), S8, axis=3)
    bias = net.bias("b", channels)
    params = {"stride": (1, 2), "dilation": (1, 1), "pad_amount": [(1, 1), (1, 0)]}
    y = net.add("DepthWiseConv2d", x, w, bias, name="y", scale=0.3, zero=100, **params)
    net.check(y)
