"""Nodes fused into convolutions of stored integers: bits equal to the definition of each node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset
from dovetail_onednn import library
from dovetail_onednn.quantized.curves import curve_of
from dovetail_onednn.quantized.sums import sum_constants

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
SAME = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}

GRIDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([U8, U8, S8]),
        "scale": st.sampled_from([0.003, 0.05, 0.7]),
        "zero": st.sampled_from([0, 3, 100, -20]),
    }
)


def conv(net: Any, x: Any, name: str, units: int, **grid: Any) -> Any:
    """Add a 3x3 convolution that keeps the shape."""
    filters = net.weights(f"{name}.w", (3, 3, x.shape[-1], units), axis=3)
    return net.add("Conv2d", x, filters, net.bias(f"{name}.b", units), name=name, **grid, **SAME)


def steps(net: Any, *results: Any) -> int:
    """Check results against the definition and return the number of steps."""
    net.check(*results, engine=library().has_vnni)
    return len(net.prepare().steps)


@examples(120)
@given(
    op_type=st.sampled_from(["Relu", "ReluMinMax", "Relu6"]),
    grid=GRIDS,
    bits=st.sampled_from([None, None, 6]),
    extreme=st.booleans(),
    limits=st.tuples(st.floats(-3, 0), st.floats(0.5, 9)),
)
def test_clamps(
    new_network: Any,
    op_type: str,
    grid: Any,
    bits: int | None,
    extreme: bool,
    limits: tuple[float, float],
) -> None:
    grid = grid | {"bits": bits}
    net = new_network(extreme=extreme)
    params = {}
    if op_type == "ReluMinMax":
        params = {"min_value": limits[0], "max_value": limits[1]}
    product = conv(net, net.input("x", (1, 5, 5, 20)), "conv", 24, **grid)
    clamped = net.add(op_type, product, name="y", **grid, **params)
    assert steps(net, clamped) == 1


CURVES = {
    "Relu": {},
    "Gelu": {},
    "Sigmoid": {},
    "Tanh": {},
    "HardSwish": {},
    "Elu": {"alpha": 0.7},
    "ElementWiseNeg": {},
    "ElementWiseAbs": {},
    "ElementWiseSin": {},  # not a function of the library
}


@examples(300)
@given(
    op_type=st.sampled_from(sorted(CURVES)),
    kind=st.sampled_from(["Conv2d", "DepthWiseConv2d", "MatMul"]),
    product=GRIDS,
    result=GRIDS,
    bits=st.sampled_from([None, None, 5]),
    clamps=st.booleans(),
    extreme=st.booleans(),
)
def test_functions(
    new_network: Any,
    op_type: str,
    kind: str,
    product: Any,
    result: Any,
    bits: int | None,
    clamps: bool,
    extreme: bool,
) -> None:
    net, product = new_network(extreme=extreme), product | {"bits": bits}
    x = net.input("x", (1, 7, 5, 32), zero=130)
    if kind == "Conv2d":
        y = conv(net, x, "y0", 32, **product)
    elif kind == "MatMul":
        y = net.add("MatMul", x, net.weights("w", (32, 24), axis=1), name="y0", **product)
    else:
        filters = net.weights("w", (3, 3, 1, 32), axis=3)
        y = net.add(kind, x, filters, net.bias("b", 32), name="y0", **product, **SAME)
    if clamps:
        y = net.add("Relu", y, name="clamped", **product)
    y = net.add(op_type, y, name="y", **result, **CURVES[op_type])
    view = net.checked().nodes[-1]
    is_fused = library().has_vnni and curve_of(view) is not None
    net.check(y, engine=is_fused)
    assert (len(net.prepare().steps) == 1) >= is_fused


def test_most_functions_have_post_ops(new_network: Any) -> None:
    found = []
    for op_type, params in CURVES.items():
        for zero in range(0, 250, 10):
            net = new_network()
            x = net.input("x", (1, 7), zero=zero)
            net.add(op_type, x, name="y", scale=0.013, zero=9, **params)
            (view,) = net.checked().nodes
            found.append(curve_of(view) is not None)
    assert sum(found) > 0.8 * 25 * (len(CURVES) - 1)


def test_functions_without_post_ops_run_alone(new_network: Any) -> None:
    net = new_network()
    product = conv(net, net.input("x", (1, 5, 5, 20)), "conv", 24, scale=0.1, zero=50)
    other = net.add("ElementWiseSin", product, name="y", scale=0.07)
    other.kind = type(other.kind).APP_READ
    assert len(net.prepare().steps) == 2


@examples(250)
@given(
    op_type=st.sampled_from(["ElementWiseAdd", "ElementWiseSubtract"]),
    product=GRIDS,
    other=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0, 7, 120])),
    result=GRIDS,
    before=st.booleans(),
    after=st.booleans(),
    is_first=st.booleans(),
    extreme=st.booleans(),
    size=st.sampled_from([1, 3]),
)
def test_sums(
    new_network: Any,
    op_type: str,
    product: Any,
    other: Any,
    result: Any,
    before: bool,
    after: bool,
    is_first: bool,
    extreme: bool,
    size: int,
) -> None:
    net = new_network(extreme=extreme)
    x, added = net.input("x", (1, 6, 5, 20)), net.input("r", (1, 6, 5, 36), *other)
    y = conv(net, x, "conv", 36, **product)
    if before:
        y = net.add("Relu", y, name="before", **product)
    operands = (y, added) if is_first else (added, y)
    y = net.add(op_type, *operands, name="sum", **result)
    if after:
        y = net.add("Relu", y, name="after", **result)
    (added_up,) = (view for view in net.checked().nodes if view.op_type == op_type)
    is_fused = library().has_vnni and sum_constants(added_up) is not None
    net.check(y, engine=is_fused)
    assert (len(net.prepare().steps) == 1) == is_fused


@pytest.mark.parametrize("after", [False, True])
def test_a_sum_of_fewer_bits_saturates_at_its_own_limits(new_network: Any, after: bool) -> None:
    net = new_network(extreme=True)
    x, grid = net.input("x", (1, 6, 5, 20)), {"scale": 0.001, "zero": 3}
    y = net.add("ElementWiseAdd", conv(net, x, "conv", 20, **grid), x, name="sum", **grid)
    y.encoding = ScaleOffset(0.001, -3, 6)
    if after:
        y = net.add("Relu", y, name="relu", **grid)
    net.check(y, engine=False)


@pytest.mark.parametrize("reads_again", [False, True])
def test_residual_blocks(new_network: Any, reads_again: bool) -> None:
    """The residual shares its bytes with the sum, unless it is read again."""
    net, grid = new_network(), {"scale": 0.4, "zero": 30}
    x = conv(net, net.input("x", (1, 9, 9, 8)), "stem", 32, **grid)
    results = []
    for i in range(3):
        y = conv(net, x, f"block{i}", 32, **grid)
        y = net.add(
            "Relu", net.add("ElementWiseAdd", y, x, name=f"sum{i}", **grid), name=f"r{i}", **grid
        )
        if reads_again:
            results.append(net.add("ElementWiseSubtract", x, y, name=f"again{i}", **grid))
        x = y
    net.check(x, *results, engine=library().has_vnni and not reads_again)


def test_observed_tensors_are_equal(new_network: Any) -> None:
    net = new_network()
    x = net.input("x", (1, 6, 5, 20))
    y = conv(net, x, "conv", 20, scale=0.3, zero=40)
    y = net.add("Relu", y, name="relu", scale=0.3, zero=40)
    y = net.add("ElementWiseAdd", y, x, name="sum", scale=0.4)
    net.check(y, engine=False)
    feeds = net.feeds()
    plain = net.run(net.prepare(fuse=False), feeds)
    assert (plain["sum"] == net.run(net.prepare(), feeds)["sum"]).all()
