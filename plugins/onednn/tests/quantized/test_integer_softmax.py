"""Softmax of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, TensorKind

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8


@pytest.mark.parametrize("spread", [3, 40, 255])
@pytest.mark.parametrize("beta", [1.0, 0.125, -1.0])
@pytest.mark.parametrize("scale", [0.003, 0.04, 0.13])
@pytest.mark.parametrize(
    ("dtype", "grid"),
    [
        (U8, {"scale": 1 / 256}),
        (S8, {"scale": 1 / 256, "zero": -128, "dtype": S8}),
        (U8, {"scale": 0.0031, "zero": 3}),
        (U8, {"scale": 0.02, "zero": 200}),
    ],
)
@pytest.mark.parametrize("shape", [(12, 128, 128), (300, 64), (1, 40, 1000)])
def test_softmax(
    new_network: Any, shape: Any, dtype: Any, grid: Any, scale: float, beta: float, spread: int
) -> None:
    net = new_network()
    x = net.input("x", shape, dtype)
    x.encoding = ScaleOffset(scale, -7)
    y = net.add("Softmax", x, name="y", beta=beta, axis=len(shape) - 1, **grid)
    y.kind = TensorKind.APP_READ
    high = dtype.stored_range()[1]
    stored = net.rng.integers(high - spread, high, shape, endpoint=True).astype(dtype.storage)
    prepared = net.prepare()
    (step,) = prepared.steps
    assert step.bind.__module__ == "dovetail_onednn.quantized.marks"
    found, wanted = net.run(prepared, {"x": stored}), net.defined({"x": stored})
    np.testing.assert_array_equal(found["y"], wanted["y"])
