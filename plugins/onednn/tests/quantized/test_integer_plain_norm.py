"""RmsNorm and L2Norm of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from norm_cases import CASES

from dovetail.ir import DType, TensorKind

U8 = DType.UFIXED_POINT_8


@pytest.mark.parametrize("kind", ["all", "few levels", "zeros"])
@pytest.mark.parametrize(("op_type", "factors"), [("RmsNorm", 0), ("RmsNorm", 2), ("L2Norm", 0)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-20, 1e-5, 0.5])
@pytest.mark.parametrize(("shape", "grids"), CASES)
def test_plain_norms(
    new_network: Any,
    grids: Any,
    epsilon: float,
    op_type: str,
    factors: int,
    shape: Any,
    kind: str,
) -> None:
    net, (data, result) = new_network(), grids
    dtype, zero, _ = data
    y = net.add_norm(op_type, shape, (data, result), epsilon=epsilon, factors=factors)
    stored = net.values(shape, dtype)
    if kind != "all":
        most = 0 if kind == "zeros" else 2
        levels = net.rng.integers(0, most, shape, endpoint=True)
        levels[::2] = 0
        stored = np.clip(zero + levels, *dtype.stored_range()).astype(dtype.storage)
    (step,) = net.check(y, feeds={"x": stored}).steps
    assert step.bind.__module__ == "dovetail_onednn.quantized.marks"


def test_other_axes_are_left(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (64, 256), U8)
    y = net.add("L2Norm", x, name="y", scale=0.02, zero=120, axis=0)
    y.kind = TensorKind.APP_READ
    prepared = net.prepare()
    assert prepared.steps[0].bind.__module__ == "dovetail_numpy.integer.steps"
