"""Convolutions of stored integers: bits equal to the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType
from dovetail_onednn import library

# A sum of so few products of levels up to 262 and 255 stays below 2**24.
EXACT_TERMS = 250
U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an op, shapes, params and encodings."""
    axes = draw(st.sampled_from([1, 2, 2, 2, 3]))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    window = [draw(st.integers(1, 3 if axes == 3 else 4)) for _ in range(axes)]
    dilation = [draw(st.integers(1, 2)) for _ in range(axes)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(axes)]
    spatial = []
    for size, apart, pad in zip(window, dilation, pads, strict=True):
        least = max((size - 1) * apart + 1 - sum(pad), 1)
        spatial.append(draw(st.integers(least, least + 7)))
    inputs, units = group * draw(st.integers(1, 40)), group * draw(st.integers(1, 40))
    shape: tuple[int, ...] = (draw(st.integers(1, 2)), *spatial, inputs)
    stride = [draw(st.integers(1, 3)) for _ in range(axes)]
    params: dict[str, Any] = {"stride": stride, "dilation": dilation, "pad_amount": pads}
    if axes == 1:
        params = {"stride": stride[0], "dilation": dilation[0], "pad_amount": pads[0]}
    op_type = f"Conv{axes}d"
    if draw(st.booleans()) and group == 1 and axes < 3:
        op_type, units = f"DepthWiseConv{axes}d", inputs
        filters = (*window, 1, units)
    else:
        params["group"] = group
        filters = (*window, inputs // group, units)
    return {
        "op_type": op_type,
        "shape": shape,
        "filters": filters,
        "params": params,
        "bias": draw(st.sampled_from([None, S32, S8, U8])),
        "weights": draw(st.sampled_from([(S8, 0), (S8, 0), (S8, 2), (U8, 140), (U8, 0)])),
        "axis": draw(st.sampled_from([None, len(filters) - 1])),
        "source": (draw(st.sampled_from([U8, S8])), draw(st.sampled_from([0, 0, 5, 120, -7]))),
        "target": (draw(st.sampled_from([U8, S8])), draw(st.sampled_from([0, 3, 100]))),
        "scale": draw(st.sampled_from([0.003, 0.05, 1.0])),
        "bits": draw(st.sampled_from([None, None, 4])),
        "extreme": draw(st.booleans()),
    }


@examples(300)
@given(case=convolutions())
def test_convolution(new_network: Any, case: dict[str, Any]) -> None:
    net = new_network(extreme=case["extreme"])
    x = net.input("x", case["shape"], *case["source"])
    weights, offset = case["weights"]
    ins = [x, net.weights("w", case["filters"], weights, axis=case["axis"], zero=offset)]
    if case["bias"] is not None:
        ins.append(net.bias("b", case["filters"][-1], case["bias"]))
    dtype, zero = case["target"]
    grid = {"dtype": dtype, "zero": zero, "scale": case["scale"], "bits": case["bits"]}
    is_fast = math.prod(case["filters"][:-1]) < EXACT_TERMS
    is_fast |= library().has_vnni and (weights, offset) == (S8, 0)
    is_fast &= not (library().has_amx and has_gaps_and_strides(case))
    is_fast &= case["source"] != (U8, -7)  # no stored integer can be the padding
    y = net.add(case["op_type"], *ins, name="y", **grid, **case["params"])
    net.check(y, engine=is_fast)


def has_gaps_and_strides(case: dict[str, Any]) -> bool:
    steps, strides = (np.ravel(case["params"][name]) for name in ("dilation", "stride"))
    has_gaps = any(s > 1 and n > 1 for s, n in zip(steps, case["filters"], strict=False))
    return has_gaps and max(strides) > 1


WIDE = [
    pytest.param((3, 1), (1, 1), ((1, 1), (0, 0)), (16, 33), id="a column, padded"),
    pytest.param((3, 1), (8, 1), ((8, 8), (0, 0)), (36, 1), id="a column with gaps"),
    pytest.param((3, 3), (4, 4), ((4, 4), (4, 4)), (7, 16), id="gaps, padded"),
    pytest.param((5, 3), (2, 2), ((4, 4), (2, 2)), (33, 7), id="gaps, padded, narrow"),
    pytest.param((3, 5), (1, 1), ((1, 0), (0, 0)), (33, 80), id="padded above"),
    pytest.param((1, 3), (1, 8), ((0, 0), (16, 0)), (1, 200), id="a causal row"),
]


@pytest.mark.parametrize(("window", "dilation", "pads", "image"), WIDE)
@pytest.mark.parametrize("source", [(U8, 120), (S8, 0)])
@pytest.mark.parametrize("weights", [(S8, 0), (U8, 140)])
def test_padding_that_onednn_gets_wrong_with_amx(
    new_network: Any,
    window: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[tuple[int, int], tuple[int, int]],
    image: tuple[int, int],
    source: tuple[DType, int],
    weights: tuple[DType, int],
) -> None:
    net, (stored, own) = new_network(extreme=False), weights
    x = net.input("x", (1, *image, 64), *source)
    ins = [x, net.weights("w", (*window, 64, 16), stored, axis=3, zero=own)]
    ins.append(net.bias("b", 16, S32))
    params = {"stride": [1, 1], "dilation": dilation, "pad_amount": pads, "group": 1}
    y = net.add("Conv2d", *ins, name="y", dtype=U8, zero=3, scale=1.0, **params)
    net.check(net.add("Relu", y, name="z", dtype=U8, zero=3, scale=1.0), engine=False)


LONG = [
    pytest.param((5, 5), (2, 2), (2, 2), ((4, 4), (4, 4)), (12, 12, 16), 64, id="gaps, strides"),
    pytest.param((1, 7), (1, 2), (1, 1), ((0, 0), (0, 5)), (1, 12, 16), 64, id="after a row"),
    pytest.param((1, 7), (1, 1), (1, 1), ((0, 0), (0, 5)), (1, 7, 16), 64, id="after a short row"),
    pytest.param((7, 6), (1, 1), (1, 1), ((6, 6), (5, 0)), (7, 11, 64), 64, id="before rows"),
    pytest.param((1, 6), (1, 4), (1, 3), ((0, 0), (4, 5)), (1, 29, 24), 128, id="gaps in a row"),
    pytest.param((5, 1), (1, 1), (1, 1), ((4, 0), (0, 0)), (9, 1, 16), 32, id="above a column"),
    pytest.param((1, 8), (1, 1), (1, 1), ((0, 0), (4, 4)), (1, 28, 40), 40, id="on both sides"),
    pytest.param((1, 9), (1, 1), (1, 2), ((0, 0), (0, 8)), (1, 22, 8), 64, id="gaps, after a row"),
]

# As many elements that no window reads as padded ones.
UNREAD = [
    pytest.param((2, 3), (3, 4), (1, 2), ((1, 1), (3, 0)), (3, 9, 32), 48, id="gaps"),
    pytest.param((2, 6), (1, 6), (1, 3), ((0, 1), (3, 0)), (3, 22, 32), 128, id="long gaps"),
    pytest.param((1, 3), (1, 6), (1, 3), ((0, 0), (5, 0)), (1, 25, 24), 32, id="one row"),
    pytest.param((2, 7), (2, 4), (1, 1), ((1, 0), (3, 0)), (4, 11, 8), 24, id="no gaps"),
]


@pytest.mark.parametrize(
    ("window", "stride", "dilation", "pads", "image", "units"), [*LONG, *UNREAD]
)
@pytest.mark.parametrize("source", [(U8, 0), (U8, 200), (S8, 0), (S8, 72), (U16, 0), (U16, 51200)])
def test_long_padding_and_as_many_elements_unread(
    new_network: Any,
    window: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[tuple[int, int], tuple[int, int]],
    image: tuple[int, int, int],
    units: int,
    source: tuple[DType, int],
) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (1, *image), *source)
    ins = [x, net.weights("w", (*window, image[2], units), S8, axis=None, zero=0)]
    params = {"stride": stride, "dilation": dilation, "pad_amount": pads, "group": 1}
    kind = U16 if source[0] is U16 else U8
    y = net.add("Conv2d", *ins, name="y", dtype=kind, zero=128, scale=1.0, **params)
    net.check(y, engine=library().has_vnni and not library().has_amx)


@pytest.mark.parametrize(
    ("image", "stride"), [((1, 5), (1, 1)), ((5, 1), (1, 1)), ((1, 9), (1, 2)), ((9, 1), (2, 1))]
)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("source", [(U8, 0), (U8, 200), (S8, 0), (U16, 51200)])
def test_five_pixels(
    new_network: Any,
    image: tuple[int, int],
    stride: tuple[int, int],
    count: int,
    source: tuple[DType, int],
) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (count, *image, 16), *source)
    ins = [x, net.weights("w", (1, 1, 16, 96), S8, axis=3, zero=0), net.bias("b", 96, S32)]
    params = {"stride": stride, "dilation": (1, 1), "pad_amount": ((0, 0), (0, 0)), "group": 1}
    kind = U16 if source[0] is U16 else U8
    y = net.add("Conv2d", *ins, name="y", dtype=kind, zero=128, scale=0.5, **params)
    net.check(net.add("Relu", y, name="z", dtype=kind, zero=128, scale=0.5))


@pytest.mark.parametrize(
    ("window", "stride", "pads", "channels"),
    [
        pytest.param((2, 2), (2, 2), ((0, 0), (0, 0)), 96, id="rows fill blocks of channels"),
        pytest.param((5, 4), (3, 2), ((0, 0), (0, 0)), 160, id="long rows fill them"),
        pytest.param((1, 2), (3, 1), ((0, 0), (2, 0)), 224, id="strides leave rows out, padded"),
        pytest.param((1, 6), (3, 1), ((0, 3), (1, 2)), 224, id="padded below"),
    ],
)
@pytest.mark.parametrize("source", [(U8, 0), (S8, 0), (U16, 0), (S16, 0)])
@pytest.mark.parametrize("weights", [(S8, 0), (U8, 140)])
def test_data_without_a_zero_point(
    new_network: Any,
    window: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[tuple[int, int], tuple[int, int]],
    channels: int,
    source: tuple[DType, int],
    weights: tuple[DType, int],
) -> None:
    net, (stored, own) = new_network(extreme=False), weights
    channels //= 1 if weights == (S8, 0) else 2  # which are copied
    x = net.input("x", (1, 14, 26, channels), *source)
    ins = [x, net.weights("w", (*window, channels, 16), stored, axis=3, zero=own)]
    ins.append(net.bias("b", 16, S32))
    params = {"stride": stride, "dilation": (1, 1), "pad_amount": pads, "group": 1}
    kind = U16 if source[0] in (U16, S16) else U8
    y = net.add("Conv2d", *ins, name="y", dtype=kind, zero=0, scale=1.0, **params)
    net.check(y, engine=library().has_vnni)


@pytest.mark.parametrize("window", [(1, 3, 3), (1, 5, 1)])
def test_volumes_one_element_deep(new_network: Any, window: tuple[int, ...]) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (1, 1, 20, 33, 48), U8, 120)
    ins = [x, net.weights("w", (*window, 48, 16), S8, axis=4, zero=0), net.bias("b", 16, S32)]
    pads = [(size // 2, size // 2) for size in window]
    params = {"stride": [2, 1, 1], "dilation": [1, 1, 1], "pad_amount": pads, "group": 1}
    net.check(net.add("Conv3d", *ins, name="y", dtype=U8, zero=3, scale=1.0, **params))


@pytest.mark.parametrize("window", [(1, 3), (2, 3)])
def test_rows_without_products(new_network: Any, window: tuple[int, int]) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (1, 7, 6, 16), U8, 120)
    ins = [x, net.weights("w", (*window, 16, 8), S8, axis=None, zero=0), net.bias("b", 8, S32)]
    params = {"stride": [4, 2], "pad_amount": ((0, 0), (1, 1))}
    y = net.add("TransposeConv2d", *ins, name="y", dtype=U8, zero=3, scale=0.5, **params)
    net.check(y, engine=False)


@pytest.mark.parametrize(
    ("window", "stride", "pads", "more"),
    [
        pytest.param((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), id="2x2"),
        pytest.param((3, 3), (3, 3), ((0, 0), (0, 0)), (2, 2), id="3x3"),
        pytest.param((3, 3), (2, 2), ((1, 0), (1, 0)), (1, 1), id="padded before"),
        pytest.param((2, 3), (3, 2), ((0, 0), (1, 1)), (2, 1), id="below"),
        pytest.param((4, 4), (3, 4), ((1, 1), (1, 1)), (2, 3), id="more than the padding"),
    ],
)
@pytest.mark.parametrize("source", [(U8, 0), (U8, 127), (S8, 72), (U16, 32512)])
def test_results_longer_than_their_products(
    new_network: Any,
    window: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[tuple[int, int], tuple[int, int]],
    more: tuple[int, int],
    source: tuple[DType, int],
) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (2, 3, 5, 16), *source)
    ins = [x, net.weights("w", (*window, 16, 16), S8, axis=None, zero=0), net.bias("b", 16, S32)]
    params = {"stride": stride, "pad_amount": pads, "output_padding": more}
    kind = U16 if source[0] is U16 else U8
    y = net.add("TransposeConv2d", *ins, name="y", dtype=kind, zero=128, scale=0.5, **params)
    net.check(y)


@pytest.mark.parametrize("source", [(U8, 0), (U8, 127), (S8, 72), (U16, 32512)])
@pytest.mark.parametrize(("group", "made"), [(32, 32), (16, 48)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_transposes_of_few_channels_a_group(
    new_network: Any, source: tuple[DType, int], group: int, made: int, has_bias: bool
) -> None:
    net = new_network(extreme=True)
    x = net.input("x", (2, 5, 6, 32), *source)
    ins = [x, net.weights("w", (4, 4, 32, made // group), S8, axis=None, zero=0)]
    ins += [net.bias("b", made, S32)] if has_bias else []
    params = {"stride": (2, 2), "pad_amount": ((1, 1), (1, 1)), "group": group}
    kind = U16 if source[0] is U16 else U8
    grid = {"dtype": kind, "zero": 7, "scale": 1.0}
    y = net.add("TransposeConv2d", *ins, name="sums", **grid, **params)
    net.check(net.add("Relu", y, name="y", **grid))


@pytest.mark.parametrize(
    ("window", "stride", "channels"),
    [
        pytest.param((3, 3, 3), (2, 1, 2), 64, id="no code of its own"),
        pytest.param((1, 3, 3), (1, 2, 2), 256, id="not whole strides"),
        pytest.param((1, 4, 4), (1, 2, 2), 160, id="whole strides"),
    ],
)
@pytest.mark.parametrize("source", [(U8, 200), (S8, 72), (U16, 51200), (S16, 18000)])
def test_sums_of_transposes_beyond_float32(
    new_network: Any,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    channels: int,
    source: tuple[DType, int],
) -> None:
    net = new_network(extreme=True)
    x = net.input("x", (1, 3, 5, 5, channels), *source)
    w = net.weights("w", (*window, channels, 33), S8, axis=None, zero=0)
    params = {"stride": stride, "pad_amount": [(0, 0)] * 3, "dilation": (2, 1, 1)}
    y = net.add("TransposeConv3d", x, w, name="y", dtype=S16, zero=0, scale=2.0, **params)
    net.check(y, engine=False)


@pytest.mark.parametrize(("zero", "at"), [(0, -1_320_000), (-20, -1_600_000)])
def test_transposes_of_signed_bytes_beyond_float32(new_network: Any, zero: int, at: int) -> None:
    net = new_network(extreme=True)
    x = net.input("x", (1, 12, 12, 256), S8, zero)
    w = net.weights("w", (3, 3, 256, 64), S8, axis=None, zero=0)
    params = {"stride": (2, 2), "pad_amount": [(0, 0)] * 2}
    # an eighth of the sums, of which the result holds a few around their mean
    y = net.add("TransposeConv2d", x, w, name="y", zero=at, scale=0.02 * 0.003 * 8, **params)
    net.check(y, engine=library().has_vnni)


@pytest.mark.parametrize("kind", [U8, U16])
def test_transposes_by_filters_larger_than_caches(new_network: Any, kind: DType) -> None:
    net, is_of_words = new_network(extreme=False), kind is U16
    x = net.input("x", (1, 4, 5, 384), kind, 32512 if is_of_words else 127)
    ins = [x, net.weights("w", (8, 8, 384, 64), S8, axis=None, zero=0), net.bias("b", 64, S32)]
    params = {"stride": (4, 4), "pad_amount": ((2, 2), (2, 2))}
    zero = 32768 if is_of_words else 128
    y = net.add("TransposeConv2d", *ins, name="y", dtype=kind, zero=zero, scale=2.0, **params)
    if not is_of_words:
        added = net.input("r", y.shape, kind, 3)
        y = net.add("ElementWiseAdd", y, added, name="sum", dtype=kind, zero=zero, scale=2.0)
    net.check(y, engine=library().has_vnni)


@pytest.mark.parametrize("source", [(U8, 0), (U8, 120), (S8, 5)])
def test_depthwise_volumes(new_network: Any, source: tuple[DType, int]) -> None:
    net = new_network(extreme=True)  # of which int16 does not hold the sum of two products
    x = net.input("x", (1, 3, 4, 5, 58), *source)
    ins = [x, net.weights("w", (2, 1, 3, 1, 58), S8, axis=4, zero=0), net.bias("b", 58, S32)]
    params = {"stride": (1, 2, 1), "pad_amount": ((1, 1), (0, 0), (1, 1)), "group": 58}
    y = net.add("Conv3d", *ins, name="y", dtype=U8, zero=90, scale=1.0, **params)
    net.check(y, engine=False)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("weights", [(U8, 117), (S8, 3), (S8, 0)])
@pytest.mark.parametrize("op_type", ["Conv2d", "TransposeConv2d"])
def test_weights_that_a_node_computes(
    new_network: Any, op_type: str, weights: tuple[DType, int], group: int
) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (1, 6, 6, 8 * group), U8, 126)
    taken = 8 if op_type == "Conv2d" else 8 * group
    units = 12 * group if op_type == "Conv2d" else 12
    w = net.input("w", (3, 3, taken, units), *weights)
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1)), "group": group}
    y = net.add(op_type, x, w, name="y", dtype=U8, zero=125, scale=1.0, **params)
    net.check(y, engine=False)
