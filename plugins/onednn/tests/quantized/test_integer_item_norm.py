"""InstanceNorm and GroupNorm of stored integers on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
MARKS = "dovetail_onednn.quantized.marks"
GRIDS = st.tuples(
    st.sampled_from([U8, S8, U16, S16]),
    st.sampled_from([0.02, 0.0137, 0.3, 1e-4, 40.0]),
    st.sampled_from([0, 3, 100]),
)


def add_norm(net: Any, op: str, shape: Any, grids: Any, *, factors: int, epsilon: float) -> Any:
    """Add a norm with gamma and beta or fewer; GroupNorm has two channels in a group."""
    (dtype, scale, zero), (target, step, shift) = grids
    x = net.input("x", shape, dtype)
    x.encoding = ScaleOffset(scale, -zero)
    grid = {"encoding": ScaleOffset(0.011, -120), "dtype": U8}
    ins = [net.static(name, net.values(shape[-1:], U8), **grid) for name in ("gamma", "beta")]
    params = {"group": shape[-1] // 2} if op == "GroupNorm" else {}
    ends = {"name": "y", "dtype": target, "scale": step, "zero": shift}
    return net.add(op, x, *ins[:factors], **ends, epsilon=epsilon, **params)


@examples(200)
@given(
    op=st.sampled_from(["InstanceNorm", "GroupNorm"]),
    shape=st.sampled_from([(1, 17, 31, 34), (1, 128, 129, 2), (1, 9, 11, 264), (2, 17, 31, 34)]),
    grids=st.tuples(GRIDS, GRIDS),
    factors=st.integers(1, 2),
    epsilon=st.sampled_from([1e-5, 1e-3, 1e-12, 0.0]),
    kind=st.sampled_from(["random", "extreme", "even"]),
)
def test_norms(
    new_network: Any, op: str, shape: Any, grids: Any, factors: int, epsilon: float, kind: str
) -> None:
    net = new_network(extreme=kind == "extreme")
    y = add_norm(net, op, shape, grids, factors=factors, epsilon=epsilon)
    feeds = net.feeds()
    if kind == "even":  # channels of one number, and one of few
        feeds["x"][..., ::3] = feeds["x"][0, 0, 0, 0]
        feeds["x"][..., 1::3] //= 64
    net.check(y, engine=False, feeds=feeds)


@pytest.mark.parametrize("op", ["InstanceNorm", "GroupNorm"])
@pytest.mark.parametrize(
    ("size", "grids"),
    [
        (28, ((U8, 0.02, 121), (U8, 0.03, 118))),
        (4, ((U8, 0.02, 121), (U8, 0.03, 118))),
        (28, ((U16, 1e-4, 30000), (U16, 2e-4, 32768))),
        (28, ((S16, 1e-4, 5), (U8, 0.03, 118))),
        (28, ((U8, 0.02, 121), (S16, 2e-4, -7))),
    ],
)
def test_engine_normalizes_usual_items(new_network: Any, size: int, grids: Any, op: str) -> None:
    net = new_network()
    y = add_norm(net, op, (1, size, size, 64), grids, factors=2, epsilon=1e-5)
    prepared = net.check(y, feeds={"x": np.clip(net.feeds()["x"], 40, 190)})
    assert [step.bind.__module__ for step in prepared.steps] == [MARKS]
