"""Batchnorm of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ir import DType

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("zero", [0, 113])
@pytest.mark.parametrize("shape", [(1, 9, 7, 24), (2, 5, 5, 3), (64, 33)])
@pytest.mark.parametrize(
    ("weights", "bias"),
    [
        ({"dtype": U8, "zero": 77}, U8),
        ({"dtype": U8, "zero": 0}, None),
        ({"dtype": S8, "axis": 0}, S32),
    ],
)
def test_batchnorm(
    new_network: Any, weights: Any, bias: Any, shape: Any, zero: int, extreme: bool
) -> None:
    net = new_network(extreme)
    units = shape[-1]
    x = net.input("x", shape, zero=zero)
    w = net.weights("w", (units,), **weights)
    operands = [x, w] if bias is None else [x, w, net.bias("b", units, bias)]
    net.check(net.add("Batchnorm", *operands, name="y", scale=0.0117, zero=40))


def test_batchnorm_with_fused_relu(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (1, 8, 8, 32), S8, zero=-3)
    w, b = net.weights("w", (32,), U8, zero=90), net.bias("b", 32, U8)
    y = net.add("Batchnorm", x, w, b, name="y", scale=0.02, zero=101)
    z = net.add("Relu", y, name="z", scale=0.02, zero=101)
    net.check(z)
    assert len(net.prepare().steps) == 1
