"""Softmax of stored integers on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Spec, TensorKind
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


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
@pytest.mark.parametrize("shape", [(12, 128, 128), (300, 64), (1, 40, 1000), (2, 3, 5)])
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


@pytest.mark.parametrize("spread", [3, 4000, 65535])
@pytest.mark.parametrize("beta", [1.0, 0.125, -1.0])
@pytest.mark.parametrize("scale", [1e-5, 2.5e-4, 0.13])
@pytest.mark.parametrize(
    ("dtype", "grid"),
    [
        (U16, {"scale": 2.0**-16, "dtype": U16}),
        (U16, {"scale": 1 / 65535, "zero": 7, "dtype": U16}),
        (S16, {"scale": 2.0**-15, "dtype": S16}),
        (S16, {"scale": 1 / 256}),
        (U16, {"scale": 0.003, "zero": 200, "dtype": U16}),
    ],
)
@pytest.mark.parametrize("shape", [(12, 128, 128), (300, 64), (1, 40, 1000), (2, 197, 197)])
def test_softmax_of_words(
    new_network: Any, shape: Any, dtype: Any, grid: Any, scale: float, beta: float, spread: int
) -> None:
    net = new_network()
    x = net.input("x", shape, dtype)
    x.encoding = ScaleOffset(scale, -7)
    y = net.add("Softmax", x, name="y", beta=beta, axis=len(shape) - 1, **grid)
    high = dtype.stored_range()[1]
    stored = net.rng.integers(high - spread, high, shape, endpoint=True).astype(dtype.storage)
    (step,) = net.check(y, feeds={"x": stored}).steps
    assert step.bind.__module__ == "dovetail_onednn.quantized.marks"


@pytest.mark.parametrize("shape", [(25, 6), (300, 64)])
def test_results_of_floats_have_no_grid(new_network: Any, shape: Any) -> None:
    net = new_network()
    x = net.input("x", shape, U8)
    x.encoding = ScaleOffset(0.03, -7)
    y = add(net.graph, "Softmax", [x], name="y", spec=Spec(DType.FLOAT_32, shape))
    y.kind = TensorKind.APP_READ
    stored = net.rng.integers(0, 256, shape, dtype=np.uint8)
    (found,) = net.run(net.prepare(), {"x": stored}).values()
    real = np.exp(0.03 * (stored.astype(np.float64) - 7))
    np.testing.assert_allclose(found, real / real.sum(-1, keepdims=True), rtol=1e-5)
