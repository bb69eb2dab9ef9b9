"""RmsNorm and L2Norm of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, TensorKind

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
SHAPES = [(40, 256), (1, 16, 768), (3, 5, 8, 129), (9000, 1), (2731, 3), (4, 3000)]


@pytest.mark.parametrize("kind", ["all", "few levels", "zeros"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("op_type", "factors"), [("RmsNorm", 0), ("RmsNorm", 2), ("L2Norm", 0)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-20, 1e-5, 0.5])
@pytest.mark.parametrize(
    ("data", "result"),
    [
        ((U8, 128, 0.03), (U8, 120, 0.04)),
        ((U8, 0, 0.03), (U8, 128, 0.004)),
        ((S8, 37, 0.002), (S8, -60, 0.004)),
        ((S8, -128, 0.01), (U8, 0, 0.5)),
    ],
)
def test_plain_norms(
    new_network: Any,
    data: Any,
    result: Any,
    epsilon: float,
    op_type: str,
    factors: int,
    shape: Any,
    kind: str,
) -> None:
    net, width, (dtype, zero, scale) = new_network(), shape[-1], data
    x = net.input("x", shape, dtype)
    x.encoding = ScaleOffset(scale, -zero)
    gamma = net.static("gamma", net.values((width,), U8), U8, ScaleOffset(0.006, 0))
    bias = net.rng.integers(-(1 << 20), 1 << 20, width).astype(np.int32)
    beta = net.static("beta", bias, S32, ScaleOffset(1e-6, 0))
    ins = [x, gamma, beta][: factors + 1]
    params = {"axes": np.array([len(shape) - 1], np.uint32), "epsilon": epsilon}
    of_result, shift, step = result
    y = net.add(op_type, *ins, name="y", dtype=of_result, scale=step, zero=shift, **params)
    y.kind = TensorKind.APP_READ
    stored = net.values(shape, dtype)
    if kind != "all":
        most = 0 if kind == "zeros" else 2
        levels = net.rng.integers(0, most, shape, endpoint=True)
        levels[::2] = 0
        stored = np.clip(zero + levels, *dtype.stored_range()).astype(dtype.storage)
    prepared, feeds = net.prepare(), {"x": stored}
    (bound,) = prepared.steps
    assert bound.bind.__module__ == "dovetail_onednn.quantized.marks"
    found, wanted = net.run(prepared, feeds), net.defined(feeds)
    np.testing.assert_array_equal(found["y"], wanted["y"])


def test_other_axes_are_left(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (64, 256), U8)
    y = net.add("L2Norm", x, name="y", scale=0.02, zero=120, axis=0)
    y.kind = TensorKind.APP_READ
    prepared = net.prepare()
    assert prepared.steps[0].bind.__module__ == "dovetail_numpy.integer.steps"
