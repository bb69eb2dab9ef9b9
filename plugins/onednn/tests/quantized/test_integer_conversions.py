"""Conversions between float32 and stored integers: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind

F32 = DType.FLOAT_32
U8, S8, S4 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_4
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
NAMES = {"quantize": "y", "dequantize": "r", "both": "r"}
# Sizes for which NumPy and the library search for NaN, and few elements.
SHAPES = [(1, 40, 60), (3, 700, 1), (2, 300, 251)]
SMALL = [(), (1,), (3, 1, 5), (2, 31)]
SPECIAL = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0]


def build(net: Any, kind: str, shape: Any, grid: Any) -> Any:
    """Add a conversion to `y`, or one back to `r`, or both in a row; return the result."""
    dtype, scale, zero, bitwidth = grid
    encoding = ScaleOffset(scale, -zero, bitwidth)
    if kind == "dequantize":
        y = net.graph.add_tensor(Tensor("y", dtype, shape, TensorKind.APP_WRITE, encoding=encoding))
    else:
        x = net.graph.add_tensor(Tensor("x", F32, shape, TensorKind.APP_WRITE))
        y = net.converted(x, "y", dtype, encoding)
    if kind != "quantize":
        net.converted(y, "r")
    return net.graph.tensors[NAMES[kind]]


def numbers(net: Any, shape: Any, scale: float, *, special: bool) -> Any:
    """Return numbers around the grid, half of them ties, and perhaps what is no number."""
    steps = net.rng.integers(-300, 300, shape) + net.rng.choice([0.5, 0.37], shape)
    with np.errstate(over="ignore"):
        found = (steps * scale).astype(np.float32)
    if special:
        at = net.rng.integers(0, found.size, len(SPECIAL))
        found.reshape(-1)[at] = SPECIAL
    return found


@examples(200)
@given(
    kind=st.sampled_from(sorted(NAMES)),
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([U8, S8, U8, S8, U16, S16, S4]),
    scale=st.sampled_from([2.0**-6, 0.02, 0.0037, 1e-30, 3e30]),
    zero=st.sampled_from([0, 3, 128, 255, -7, 900]),
    bitwidth=st.sampled_from([None, 3]),
    special=st.booleans(),
)
def test_conversions(
    new_network: Any,
    kind: str,
    shape: Any,
    dtype: DType,
    scale: float,
    zero: int,
    bitwidth: int | None,
    special: bool,
) -> None:
    net = new_network()
    result = build(net, kind, shape, (dtype, scale, zero, bitwidth))
    x = numbers(net, shape, scale, special=special)
    is_of_engine = kind == "both" or dtype in (U8, S8)
    feeds = net.feeds() if kind == "dequantize" else {"x": x}
    prepared = net.check(result, feeds=feeds, engine=is_of_engine)
    assert len(prepared.steps) == 1


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("kind", ["quantize", "both"])
def test_few_elements(new_network: Any, shape: Any, kind: str) -> None:
    net = new_network()
    result = build(net, kind, shape, (U8, 0.02, 128, None))
    x = numbers(net, shape, 0.02, special=True)
    assert len(net.check(result, feeds={"x": x}, engine=True).steps) == 1


def test_no_elements(new_network: Any) -> None:
    net = new_network()
    result = build(net, "quantize", (0, 3), (U8, 0.02, 128, None))
    net.check(result, feeds={"x": np.zeros((0, 3), np.float32)}, engine=False)


@examples(100)
@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([U16, S16]),
    scale=st.sampled_from([2.0**-9, 0.0037, 1e-30, 3e30]),
    zero=st.sampled_from([0, 150, 32767, 65535, -32768, 90000]),
    bitwidth=st.sampled_from([None, 12]),
    special=st.booleans(),
)
def test_words_between_floats(
    new_network: Any,
    shape: Any,
    dtype: DType,
    scale: float,
    zero: int,
    bitwidth: int | None,
    special: bool,
) -> None:
    net = new_network()
    result = build(net, "both", shape, (dtype, scale, zero, bitwidth))
    x = numbers(net, shape, scale, special=special)
    assert len(net.check(result, feeds={"x": x}).steps) == 1


def test_a_result_may_replace_its_argument(new_network: Any) -> None:
    net = new_network()
    x = net.graph.add_tensor(Tensor("x", F32, (1, 40, 60), TensorKind.APP_WRITE))
    for i in range(3):  # the values between them are on the grid, but NaN
        y = net.converted(x, f"y{i}", U8, ScaleOffset(0.02, -9))
        x = net.converted(y, f"r{i}")
    net.check(x, feeds={"x": numbers(net, x.shape, 0.02, special=True)})


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_far_zero_points(new_network: Any, kind: str) -> None:
    for zero in (5000, 1 << 18):
        net = new_network()
        result = build(net, kind, SHAPES[0], (U8, 0.02, zero, None))
        feeds = {"x": numbers(net, SHAPES[0], 0.02, special=True)}
        net.check(result, feeds=net.feeds() if kind == "dequantize" else feeds, engine=False)


def test_bytes_with_another_reader_are_written(new_network: Any) -> None:
    net = new_network()
    r = build(net, "both", SHAPES[0], (U8, 0.02, 3, None))
    y = net.graph.tensors["y"]
    results = r, net.add("Relu", y, name="other", scale=0.02, zero=3)
    net.check(*results, engine=False, feeds={"x": numbers(net, SHAPES[0], 0.02, special=True)})
