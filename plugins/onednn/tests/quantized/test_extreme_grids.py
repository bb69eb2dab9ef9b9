"""Scales and zero points far outside of what quantizers write: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ir import DType, ScaleOffset, TensorKind

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S4 = DType.SFIXED_POINT_4


@pytest.mark.parametrize("zero", [-70_000, 2**20, 2**30, 2**31 - 1, -(2**31) + 1])
def test_zero_points_of_matrices(new_network: Any, zero: int) -> None:
    """Sums that do not fit 32 bits are not computed by the library."""
    net = new_network()
    ins = net.input("a", (3, 8, 8), U8, 147), net.input("b", (3, 8, 5), U8, zero)
    net.check(net.add("MatMul", *ins, name="y", scale=0.03, zero=147), engine=False)


@pytest.mark.parametrize("zero", [-70_000, 70_000, 2**20, 65_536])
def test_zero_points_of_words(new_network: Any, zero: int) -> None:
    net = new_network()
    ins = net.input("x", (4, 16), U16, zero), net.weights("w", (16, 16), S8)
    net.check(net.add("MatMul", *ins, name="y", dtype=U16, scale=0.5, zero=5), engine=False)


@pytest.mark.parametrize("zero", [2**24 + 1, 2**31, -(2**31) + 1])
@pytest.mark.parametrize("clamps", [False, True])
def test_zero_points_of_results(new_network: Any, zero: int, clamps: bool) -> None:
    net = new_network()
    x, grid = net.input("x", (1, 5, 5, 16)), {"scale": 1e-8, "zero": zero}
    ins = x, net.weights("w", (1, 1, 16, 16))
    same = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    y = net.add("Conv2d", *ins, name="y", **grid, **same)
    net.check(net.add("Relu", y, name="relu", **grid) if clamps else y, engine=False)


@pytest.mark.parametrize("zero", [1000, 2**15, -(2**15)])
def test_zero_points_of_weights(new_network: Any, zero: int) -> None:
    """Weights are split into a few terms only."""
    net = new_network()
    ins = net.input("x", (1, 5, 5, 16)), net.weights("w", (1, 1, 16, 16), zero=zero)
    same = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    net.check(net.add("Conv2d", *ins, name="y", scale=90.0, **same), engine=False)


def test_a_padded_maximum_saturates_at_the_limits_of_its_bits(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (1, 6, 4, 8))
    x.encoding = ScaleOffset(0.02, -131, 4)
    params = {"filter_size": (2, 2), "stride": (1, 1), "pad_amount": ((1, 0), (0, 1))}
    y = net.add("PoolMax2d", x, name="y", **params)
    y.encoding, y.kind = x.encoding, TensorKind.APP_READ
    feeds = {"x": net.values(x.shape, U8) & 15}
    found, wanted = net.run(net.prepare(), feeds), net.defined(feeds)
    assert (found["y"] == wanted["y"]).all()
    assert (found["y"] == 15).any()


@pytest.mark.parametrize("op_type", ["Softmax", "LayerNorm", "Lrn"])
@pytest.mark.parametrize("scales", [(0.02, 1e-38), (1e-38, 0.02), (1e38, 1e-38), (1e-45, 1e30)])
def test_scales_of_norms(new_network: Any, op_type: str, scales: tuple[float, float]) -> None:
    """Infinities saturate, without a warning."""
    net = new_network()
    x = net.input("x", (5, 6, 16))
    x.encoding = ScaleOffset(scales[0], -100)
    axis = {"axes": (2,)} if op_type == "LayerNorm" else {}
    radius = {"radius": 1} if op_type == "Lrn" else {}
    y = net.add(op_type, x, name="y", scale=scales[1], zero=9, **axis, **radius)
    net.check(y, engine=False)


def test_one_constant_of_4_bits(new_network: Any) -> None:
    net = new_network()
    number = net.static("c", net.values((), S4), S4, ScaleOffset(0.3, -1))
    x = net.input("x", (2, 7, 16))
    net.check(net.add("ElementWiseAdd", x, number, name="y"), engine=False)


def test_transposed_convolution_of_no_channels(new_network: Any) -> None:
    net = new_network()
    ins = net.input("x", (1, 3, 3, 0)), net.weights("w", (2, 2, 0, 4)), net.bias("b", 4)
    same = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    net.check(net.add("TransposeConv2d", *ins, name="y", **same), engine=False)
