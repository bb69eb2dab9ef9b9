"""Products that follow each other in 16 bits: bytes stay apart between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, TensorKind
from dovetail_onednn.layouts import Planes

U8, U16, S16 = DType.UFIXED_POINT_8, DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
SAME = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}

GRIDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([U16, S16]),
        "scale": st.sampled_from([0.001, 0.05, 3.0]),
        "zero": st.sampled_from([0, 300, 20000]),
    }
)


def first_of(net: Any, op: str, x: Any, **grid: Any) -> Any:
    """Add a node whose result a product reads."""
    if op == "PoolMax2d":
        window = {"filter_size": (3, 3), "stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
        grid |= {"dtype": x.dtype, "scale": x.encoding.scale, "zero": -x.encoding.offset}
        return net.add(op, x, name="first", **grid, **window)
    if op == "ElementWiseMultiply":
        return net.add(op, x, net.input("gate", (1, 1, 1, x.shape[-1])), name="first", **grid)
    if op == "PoolAvg2d":
        window = {"filter_size": (3, 3), "count_pad_for_edges": False}
        return net.add(op, x, name="first", **grid, **SAME, **window)
    taken = 1 if op == "DepthWiseConv2d" else x.shape[-1]
    ins = net.weights("w", (3, 3, taken, x.shape[-1]), axis=3), net.bias("b", x.shape[-1])
    return net.add(op, x, *ins, name="first", **grid, **SAME)


def second_of(net: Any, op: str, x: Any, name: str = "second", **grid: Any) -> Any:
    """Add a product."""
    *_, channels = x.shape
    if op == "MatMul":
        return net.add(op, x, net.weights(f"{name}.w", (channels, 9)), name=name, **grid)
    taken = 1 if op == "DepthWiseConv2d" else channels
    window = (1, 1) if op == "pointwise" else (3, 3)
    params = SAME if window == (3, 3) else {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    kind = "Conv2d" if op == "pointwise" else op
    weights = net.weights(f"{name}.w", (*window, taken, channels), axis=3)
    return net.add(kind, x, weights, name=name, **grid, **params)


def layouts_of(prepared: Any, name: str) -> list[Any]:
    return [v.layout for step in prepared.steps for v in step.writes if v.name == name]


@examples(150)
@given(
    ops=st.tuples(
        st.sampled_from(
            ["Conv2d", "DepthWiseConv2d", "PoolMax2d", "PoolAvg2d", "ElementWiseMultiply"]
        ),
        st.sampled_from(["Conv2d", "DepthWiseConv2d", "pointwise", "MatMul"]),
    ),
    sizes=st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 40)),
    grids=st.tuples(GRIDS, GRIDS),
    source=st.tuples(st.sampled_from([U16, S16]), st.sampled_from([0, 300, 20000])),
    extreme=st.booleans(),
)
def test_two_products(
    new_network: Any, ops: Any, sizes: Any, grids: Any, source: Any, extreme: bool
) -> None:
    net = new_network(extreme=extreme)
    x = net.input("x", (1, *sizes), *source)
    y = second_of(net, ops[1], first_of(net, ops[0], x, **grids[0]), **grids[1])
    net.check(y, engine=False)


@pytest.mark.parametrize("dtype", [U16, S16])
def test_bytes_stay_apart(new_network: Any, dtype: DType) -> None:
    net = new_network()
    x = net.input("x", (1, 9, 8, 24), U16)
    y = first_of(net, "Conv2d", x, dtype=dtype, zero=90)
    z = second_of(net, "pointwise", y, dtype=dtype, scale=3.0)
    prepared = net.check(z)
    assert layouts_of(prepared, "first") == [Planes(9 * 8 * 24)]


@pytest.mark.parametrize("dtype", [U16, S16])
def test_other_readers_get_words(new_network: Any, dtype: DType) -> None:
    net = new_network()
    x = net.input("x", (1, 9, 8, 24), U16)
    y = first_of(net, "Conv2d", x, dtype=dtype)
    z = second_of(net, "Conv2d", y, dtype=dtype, scale=3.0)
    total = net.add("ElementWiseAdd", y, z, name="sum", dtype=dtype, scale=3.0)
    prepared = net.check(total, engine=False)
    assert layouts_of(prepared, "first") == [None, Planes(9 * 8 * 24)]


@pytest.mark.parametrize("dtype", [U16, S16])
def test_a_tensor_that_is_a_result_too(new_network: Any, dtype: DType) -> None:
    net = new_network()
    x = net.input("x", (1, 9, 8, 24), dtype)
    y = first_of(net, "Conv2d", x, dtype=dtype, zero=90)
    z = second_of(net, "Conv2d", y, dtype=dtype, scale=3.0)
    net.check(y, z)


def test_several_products_share_one_copy(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (1, 9, 8, 24), U16)
    results = [second_of(net, "Conv2d", x, f"{i}", dtype=U16) for i in range(3)]
    prepared = net.check(*results)
    assert layouts_of(prepared, "x") == [Planes(9 * 8 * 24)]


@pytest.mark.parametrize("dtype", [U16, S16])
def test_constant_data(new_network: Any, dtype: DType) -> None:
    """Bytes of constants are taken apart when preparing."""
    net = new_network()
    stored = net.values((1, 5, 5, 16), dtype)
    x = net.static("x", stored, dtype, net.input("like", (1,), dtype, 7).encoding)
    y = second_of(net, "Conv2d", x, dtype=U16, scale=3.0)
    y.kind = TensorKind.APP_READ
    wanted = net.defined({"like": np.zeros(1, dtype.storage)})["second"]
    found = net.run(net.prepare(), {"like": np.zeros(1, dtype.storage)})["second"]
    np.testing.assert_array_equal(found, wanted)
