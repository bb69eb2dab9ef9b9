"""Products of 16-bit data and weights of 8 or 16 bits: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType
from dovetail_numpy.integer.tables import HardSwish
from dovetail_onednn import library

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
ENDS = {
    "source": st.tuples(st.sampled_from([U16, S16]), st.sampled_from([0, 300, 20000])),
    "target": st.tuples(
        st.sampled_from([U16, S16, U8]), st.sampled_from([0.001, 3.0]), st.sampled_from([0, 77])
    ),
    "bias": st.sampled_from([None, S32, S8]),
    "per_unit": st.booleans(),
    "weights": st.sampled_from(
        [(S8, 0), (S8, 0), (U8, 140), (U8, 0), (S16, 0), (S16, 300), (U16, 20000)]
    ),
    "extreme": st.booleans(),
}


@examples(120)
@given(
    op=st.sampled_from(["Conv2d", "DepthWiseConv2d", "grouped", "pointwise"]),
    sizes=st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 40), st.integers(1, 40)),
    stride=st.integers(1, 2),
    **ENDS,
)
def test_convolution(
    new_network: Any,
    op: str,
    sizes: tuple[int, int, int, int],
    stride: int,
    source: Any,
    target: Any,
    bias: DType | None,
    per_unit: bool,
    weights: tuple[DType, int],
    extreme: bool,
) -> None:
    net, (height, width, channels, units) = new_network(extreme=extreme), sizes
    stored, own = weights
    group = 2 if op == "grouped" else 1
    channels, units = channels * group, units * group
    if op == "DepthWiseConv2d":
        units = channels
    taken = 1 if op == "DepthWiseConv2d" else channels // group
    window = (1, 1) if op == "pointwise" else (3, 3)
    x = net.input("x", (1, height, width, channels), *source)
    ins = [
        x,
        net.weights("w", (*window, taken, units), stored, zero=own, axis=3 if per_unit else None),
    ]
    if bias is not None:
        ins.append(net.bias("b", units, bias))
    pads = ((0, 0), (0, 0)) if op == "pointwise" else ((1, 1), (0, 1))
    params: dict[str, Any] = {"stride": (stride, stride), "pad_amount": pads}
    if op == "grouped":
        params["group"] = group
    dtype, scale, zero = target
    kind = "DepthWiseConv2d" if op == "DepthWiseConv2d" else "Conv2d"
    grid = {"dtype": dtype, "scale": scale, "zero": zero}
    y = net.add(kind, *ins, name="y", **grid, **params)
    # without VNNI, large sums of few channels are left to the definition
    net.check(y, engine=library().has_vnni or not (extreme and op == "grouped"))


@pytest.mark.parametrize(
    ("window", "dilation", "pads"),
    [
        pytest.param((3, 3), (2, 2), ((2, 2), (2, 2)), id="gaps"),
        pytest.param((5, 3), (1, 1), ((2, 2), (0, 1)), id="rows with a bare end"),
        pytest.param((3, 2, 3), (2, 2, 1), ((2, 2), (1, 1), (1, 1)), id="gaps in a volume"),
    ],
)
@pytest.mark.parametrize("source", [(U16, 300), (S16, 0), (U16, 0)])
@pytest.mark.parametrize("weights", [(S8, 0), (U8, 140)])
def test_padding_of_large_sums(
    new_network: Any,
    window: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    source: tuple[DType, int],
    weights: tuple[DType, int],
) -> None:
    net, axes = new_network(extreme=True), len(window)  # float32 would round the sums
    x = net.input("x", (1, *(6, 7, 9)[:axes], 96), *source)
    stored, own = weights
    w = net.weights("w", (*window, 96, 20), stored, zero=own, axis=axes + 1)
    params = {"stride": [1] * axes, "dilation": dilation, "pad_amount": pads}
    grid = {"dtype": U16, "scale": 3.0, "zero": 77}
    y = net.add(f"Conv{axes}d", x, w, net.bias("b", 20), name="y", **grid, **params)
    net.check(y, engine=library().has_vnni)


@examples(100)
@given(
    op=st.sampled_from(["FullyConnected", "MatMul"]),
    sizes=st.tuples(*[st.integers(1, 60)] * 3),
    slices=st.integers(1, 3),
    **ENDS,
)
def test_one_matrix(
    new_network: Any,
    op: str,
    sizes: tuple[int, int, int],
    slices: int,
    source: Any,
    target: Any,
    bias: DType | None,
    per_unit: bool,
    weights: tuple[DType, int],
    extreme: bool,
) -> None:
    net, (rows, depth, units) = new_network(extreme=extreme), sizes
    stored, own = weights
    shape = (units, depth) if op == "FullyConnected" else (depth, units)
    axis = shape.index(units) if op == "FullyConnected" else 1
    if op == "FullyConnected":  # which joins the axes of the data
        shape = (units, depth * slices)
        x = net.input("x", (rows, slices, depth), *source)
    else:
        x = net.input("x", (rows, depth), *source)
    ins = [x, net.weights("w", shape, stored, zero=own, axis=axis if per_unit else None)]
    if bias is not None:
        ins.append(net.bias("b", units, bias))
    dtype, scale, zero = target
    y = net.add(op, *ins, name="y", dtype=dtype, scale=scale, zero=zero)
    net.check(y, engine=True)


FUSED = {
    "op": st.sampled_from(["Conv2d", "DepthWiseConv2d", "MatMul", "two", "Batchnorm"]),
    "source": ENDS["source"],
    "target": ENDS["target"],
    "extreme": st.booleans(),
}


def grid_of(target: tuple[DType, float, int]) -> dict[str, Any]:
    """Return the arguments of a network for a result."""
    return dict(zip(("dtype", "scale", "zero"), target, strict=True))


def add_product(net: Any, op: str, source: Any, target: Any) -> Any:
    """Add a product of an input; `two` has two inputs."""
    grid = grid_of(target)
    x = net.input("x", (1, 4, 5, 16), *source)
    if op == "MatMul":
        return net.add(op, x, net.weights("w", (16, 12)), name="product", **grid)
    if op == "two":
        return net.add("MatMul", x, net.input("w", (1, 4, 16, 9), U16), name="product", **grid)
    if op == "Batchnorm":
        ins = net.weights("w", (16,)), net.bias("b", 16)
        return net.add(op, x, *ins, name="product", **grid)
    taken = 1 if op == "DepthWiseConv2d" else 16
    ins = net.weights("w", (3, 3, taken, 16), axis=3), net.bias("b", 16)
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    return net.add(op, x, *ins, name="product", **grid, **params)


def step_count(net: Any) -> int:
    """Return the number of steps that run nodes."""
    return sum(1 for step in net.prepare().steps if step.nodes)


@examples(120)
@given(function=st.sampled_from(["Relu", "Relu6", "ReluMinMax"]), **FUSED)
def test_clamps_are_fused(
    new_network: Any, op: str, function: str, source: Any, target: Any, extreme: bool
) -> None:
    net = new_network(extreme=extreme)
    product = add_product(net, op, source, target)
    limits = {"min_value": -0.4, "max_value": 2.5} if function == "ReluMinMax" else {}
    net.check(
        net.add(function, product, name="y", **grid_of(target), **limits),
        engine=library().has_vnni,
    )
    assert step_count(net) == 1 or not library().has_vnni


@examples(200)
@given(
    result=st.tuples(
        st.sampled_from([U16, S16, U8]),
        st.sampled_from([1e-6, 1e-4, 0.0007, 0.02]),
        st.sampled_from([0, 77, 30000]),
    ),
    clamps=st.booleans(),
    **FUSED,
)
def test_hard_swish_is_fused(
    new_network: Any, op: str, source: Any, target: Any, result: Any, clamps: bool, extreme: bool
) -> None:
    net = new_network(extreme=extreme)
    y = add_product(net, op, source, target)
    if clamps:
        y = net.add("Relu6", y, name="clamped", **grid_of(target))
    y = net.add("HardSwish", y, name="y", **grid_of(result))
    is_fused = library().has_vnni and HardSwish.of(net.checked().nodes[-1]) is not None
    net.check(y, engine=is_fused)
    assert step_count(net) == 1 or not is_fused


@pytest.mark.parametrize(
    ("weights", "between", "function", "last"),
    [
        (S8, U16, "HardSwish", U8),
        (S8, U16, "Relu6", U16),
        (S16, U8, "Relu6", U8),
        (S16, U8, "ElementWiseAdd", U8),
        (S16, U16, "HardSwish", U8),
    ],
)
@pytest.mark.parametrize("op", ["Conv2d", "MatMul", "Batchnorm"])
def test_bytes_whose_product_or_weights_are_words(
    new_network: Any, op: str, weights: DType, between: DType, function: str, last: DType
) -> None:
    net = new_network()
    x = net.input("x", (1, 4, 5, 16), U8, 130)
    shape = {"Conv2d": (3, 3, 16, 16), "MatMul": (16, 16), "Batchnorm": (16,)}[op]
    ins = [x, net.weights("w", shape, weights)]
    ins += [net.bias("b", 16)] if op == "Batchnorm" else []
    same = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))} if op == "Conv2d" else {}
    y = net.add(op, *ins, name="product", dtype=between, scale=0.03, zero=9, **same)
    others = [net.input("o", y.shape)] if function == "ElementWiseAdd" else []
    net.check(net.add(function, y, *others, name="y", dtype=last, scale=0.05), engine=False)


@examples(60)
@given(
    sizes=st.tuples(st.integers(1, 3), *[st.integers(1, 40)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    broadcast=st.booleans(),
    types=st.tuples(st.sampled_from([U16, S16]), st.sampled_from([U16, S16, U8, S8])),
    zeros=st.tuples(*[st.sampled_from([0, 77, 20000, 32767])] * 2),
    is_constant=st.booleans(),
    target=ENDS["target"],
    extreme=st.booleans(),
)
def test_two_stacks(
    new_network: Any,
    sizes: tuple[int, int, int, int],
    transposed: tuple[bool, bool],
    broadcast: bool,
    types: tuple[DType, DType],
    zeros: tuple[int, int],
    is_constant: bool,
    target: Any,
    extreme: bool,
) -> None:
    net, (count, rows, depth, units) = new_network(extreme=extreme), sizes
    first = (2, count, *((depth, rows) if transposed[0] else (rows, depth)))
    second = (1 if broadcast else 2, count, *((units, depth) if transposed[1] else (depth, units)))
    a, zero = net.input("a", first, types[0], zeros[0]), zeros[1]
    zero = zero if types[1] in (U16, S16) else zero % 128
    if is_constant:
        b = net.weights("b", second, types[1], zero=zero)
    else:
        b = net.input("b", second, types[1], zero)
    dtype, scale, zero = target
    params = dict(zip(("transpose_in0", "transpose_in1"), transposed, strict=True))
    grid = {"dtype": dtype, "scale": scale * 100, "zero": zero}
    net.check(net.add("MatMul", a, b, name="y", **grid, **params))
