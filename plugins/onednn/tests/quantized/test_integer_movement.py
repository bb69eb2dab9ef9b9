"""Movement of stored bytes, equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, TensorKind

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
MODE = {"DCR": 0, "CRD": 1}


@pytest.mark.parametrize("dtype", [U8, S8, U16])
@pytest.mark.parametrize(
    ("op_type", "shape", "params"),
    [
        ("Transpose", (1, 3, 61, 67), {"perm": (0, 2, 3, 1)}),
        ("Transpose", (2, 31, 12, 17), {"perm": (0, 2, 1, 3)}),
        ("Transpose", (5, 4, 3, 2, 7, 9), {"perm": (3, 1, 5, 0, 4, 2)}),
        ("ChannelShuffle", (1, 14, 14, 34), {"num_groups": 2, "axis": 3}),
        ("ChannelShuffle", (2, 36, 10, 10), {"num_groups": 4, "axis": 1}),
        ("DepthToSpace", (1, 13, 11, 36), {"block_size": (2, 3), "mode": MODE["DCR"]}),
        ("DepthToSpace", (1, 13, 11, 36), {"block_size": (2, 3), "mode": MODE["CRD"]}),
        ("SpaceToDepth", (1, 26, 33, 6), {"block_size": (2, 3)}),
    ],
)
def test_exchange_of_axes(
    new_network: Any, dtype: DType, op_type: str, shape: Any, params: dict[str, Any]
) -> None:
    net = new_network()
    grid = {"dtype": dtype, "zero": 7, "scale": 0.02}
    result = net.add(op_type, net.input("x", shape, dtype, 7), name="y", **grid, **params)
    result.kind = TensorKind.APP_READ
    prepared, feeds = net.prepare(), net.feeds()
    found, wanted = net.run(prepared, feeds), net.defined(feeds)
    np.testing.assert_array_equal(found["y"], wanted["y"])
    assert all(step.bind.__module__ == "dovetail_onednn.execution" for step in prepared.steps)


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((1, 4, 128, 128), (0, 2, 3, 1)),
        ((1, 1, 1024, 64), (0, 2, 1, 3)),  # moves nothing
        ((64, 64, 16), (0, 1, 2)),
        ((16, 16, 16, 16), (0, 1, 3, 2)),
        ((1, 128, 8, 64), (0, 2, 1, 3)),
    ],
)
def test_transpose_of_every_word(new_network: Any, shape: Any, perm: Any) -> None:
    net = new_network()
    x = net.input("x", shape, U16)  # bits of NaN among others
    result = net.add("Transpose", x, name="y", dtype=U16, scale=0.02, perm=perm)
    result.kind = TensorKind.APP_READ
    every = np.arange(1 << 16, dtype=np.uint16).reshape(x.shape)
    prepared = net.prepare()
    np.testing.assert_array_equal(net.run(prepared, {"x": every})["y"], every.transpose(perm))
    assert [step.bind.__module__ for step in prepared.steps] == ["dovetail_onednn.execution"]


@pytest.mark.parametrize("groups", [2, 8])
def test_shuffle_of_every_word(new_network: Any, groups: int) -> None:
    net = new_network()
    x = net.input("x", (1, 32, 32, 64), U16)
    params = {"num_groups": groups, "axis": 3}
    y = net.add("ChannelShuffle", x, name="y", dtype=U16, scale=0.02, **params)
    net.check(y, feeds={"x": np.arange(1 << 16, dtype=np.uint16).reshape(x.shape)})


def test_concatenation_of_short_rows(new_network: Any) -> None:
    for widths in ((16, 64), (3, 7), (4, 64, 5)):
        net = new_network()
        parts = [net.input(f"x{i}", (1, 30, 31, width)) for i, width in enumerate(widths)]
        y = net.add("Concat", *parts, name="y", axis=3, scale=0.02)
        net.check(y)


GRIDS = st.tuples(
    st.sampled_from([U8, S8]),
    st.sampled_from([0.02, 0.021, 0.05, 0.0007, 0.01]),
    st.sampled_from([0, 7, 128]),
)


@examples(120)
@given(
    shapes=st.sampled_from(
        [
            (3, [(1, 30, 31, 16), (1, 30, 31, 64)]),
            (1, [(2, 40, 5), (2, 7, 5), (2, 1000, 5)]),
            (0, [(1, 5, 30, 31), (2, 5, 30, 31)]),
            (1, [(70, 70), (70, 1)]),
        ]
    ),
    grids=st.tuples(GRIDS, GRIDS, GRIDS),
    result=GRIDS,
)
def test_concatenation_of_other_grids(
    new_network: Any, shapes: Any, grids: Any, result: Any
) -> None:
    net, (axis, each) = new_network(), shapes
    parts = []
    for i, (shape, (dtype, scale, zero)) in enumerate(zip(each, grids, strict=False)):
        parts.append(net.input(f"x{i}", shape, dtype))
        parts[-1].encoding = ScaleOffset(scale, -zero)
    dtype, scale, zero = result
    y = net.add("Concat", *parts, name="y", axis=axis, dtype=dtype, scale=scale, zero=zero)
    net.check(y, engine=False)


def test_engine_concatenates_usual_grids(new_network: Any) -> None:
    net = new_network()
    parts = [net.input(f"x{i}", (1, 30, 31, 64), U8, zero) for i, zero in enumerate((0, 0, 9))]
    for part, scale in zip(parts, (0.0213, 0.0391, 0.02), strict=True):
        part.encoding = ScaleOffset(scale, part.encoding.offset)
    net.check(net.add("Concat", *parts, name="y", axis=3, scale=0.0391))


def test_concatenation_with_several_scales(new_network: Any) -> None:
    """Integers beyond a bitwidth are clipped, though all tensors have one encoding."""
    net, grids = new_network(), AxisScaleOffset(2, [0.02, 0.01, 0.03, 0.07], [0, -3, 0, -9], 5)
    parts = [net.input(f"x{i}", (1, 70, 4, 16)) for i in range(2)]
    y = net.add("Concat", *parts, name="y", axis=3)
    for tensor in (*parts, y):
        tensor.encoding = grids
    net.check(y, engine=False)
