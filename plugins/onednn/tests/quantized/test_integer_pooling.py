"""Pooling, sums and means of stored bytes: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


@st.composite
def poolings(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Draw the shape of an input, and params."""
    axes = draw(st.sampled_from([2, 2, 3]))
    size = [draw(st.integers(1, 4)) for _ in range(axes)]
    pads = [(draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))) for n in size]
    spatial = [draw(st.integers(n, n + 8)) for n in size]
    params = {
        "filter_size": size,
        "stride": [draw(st.integers(1, 3)) for _ in range(axes)],
        "pad_amount": pads,
    }
    channels = draw(st.sampled_from([1, 3, 16, 24, 33, 40, 70]))
    return (draw(st.integers(1, 2)), *spatial, channels), params


GRIDS = st.tuples(
    st.sampled_from([U8, S8, U16, S16]), st.sampled_from([0, 0, 5, 120, -128, 255]), st.booleans()
)


@pytest.mark.parametrize("dtype", [U8, S8, U16, S16])
@given(case=poolings(), zero=st.sampled_from([0, 7, 100]), extreme=st.booleans())
@examples(50)
def test_maximum(new_network: Any, dtype: DType, case: Any, zero: int, extreme: bool) -> None:
    shape, params = case
    net = new_network(extreme=extreme)
    x = net.input("x", shape, dtype, zero)
    op_type = f"PoolMax{len(shape) - 2}d"
    grid = {"dtype": dtype, "zero": zero, "scale": 0.02}
    net.check(net.add(op_type, x, name="y", **grid, **params), engine=False)


@pytest.mark.parametrize("dtype", [U8, U16])
@pytest.mark.parametrize("shape", [(1, 4, 4, 3), (1, 16, 16, 32)])
def test_maximum_clips_to_the_bitwidth(new_network: Any, shape: Any, dtype: DType) -> None:
    net, window = new_network(), {"filter_size": (2, 2), "stride": (2, 2)}
    x = net.input("x", shape, dtype)
    y = net.add("PoolMax2d", x, name="y", dtype=dtype, pad_amount=((0, 0), (0, 0)), **window)
    x.encoding = y.encoding = ScaleOffset(0.02, -7, 5)
    net.check(y, engine=False)


@given(
    case=poolings(),
    source=GRIDS,
    target=GRIDS,
    scale=st.sampled_from([0.02, 0.0137, 1.0, 1e-4]),
    counts_padding=st.booleans(),
)
@examples(120)
def test_average(
    new_network: Any, case: Any, source: Any, target: Any, scale: float, counts_padding: bool
) -> None:
    shape, params = case
    net = new_network(extreme=source[2])
    x = net.input("x", shape, *source[:2])
    op_type = f"PoolAvg{len(shape) - 2}d"
    grid = {"dtype": target[0], "zero": target[1], "scale": scale}
    params["count_pad_for_edges"] = counts_padding
    net.check(net.add(op_type, x, name="y", **grid, **params), engine=False)


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
@given(
    shape=st.sampled_from([(1, 7, 7, 64), (2, 3, 5, 33), (4, 50, 16), (3, 17)]),
    axes=st.sampled_from([(1,), (1, 2), (0,), (0, 1)]),
    keeps=st.booleans(),
    grids=st.tuples(GRIDS, GRIDS),
    scale=st.sampled_from([0.02, 0.0137, 1.0]),
)
@examples(60)
def test_reduction(
    new_network: Any, op_type: str, shape: Any, axes: Any, keeps: bool, grids: Any, scale: float
) -> None:
    if max(axes) >= len(shape):
        return
    source, target = grids
    net = new_network(extreme=source[2])
    x = net.input("x", shape, *source[:2])
    grid = {"dtype": target[0], "zero": target[1], "scale": scale}
    net.check(net.add(op_type, x, name="y", axes=axes, keep_dims=keeps, **grid), engine=False)


IN_PARTS = {"filter_size": (3, 3), "stride": (2, 2), "pad_amount": ((1, 1), (1, 1))}
WHOLE = {"filter_size": (14, 14), "stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}


@pytest.mark.parametrize(
    ("op_type", "params", "dtype"),
    [
        ("PoolMax2d", IN_PARTS, U8),
        ("PoolMax2d", IN_PARTS, U16),
        ("PoolAvg2d", IN_PARTS, U8),
        ("PoolAvg2d", IN_PARTS, U16),
        ("PoolAvg2d", WHOLE, U8),
        ("ReduceMean", {"axes": (1, 2)}, U8),
    ],
)
def test_engine_pools(new_network: Any, op_type: str, params: dict[str, Any], dtype: DType) -> None:
    net = new_network()
    x = net.input("x", (1, 14, 14, 48), dtype, 0)
    y = net.add(op_type, x, name="y", dtype=dtype, scale=0.02, **params)
    (step,) = net.check(y, engine=False).steps
    assert step.bind.__module__.startswith("dovetail_onednn")
