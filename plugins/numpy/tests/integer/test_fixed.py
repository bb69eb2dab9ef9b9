"""Multipliers in fixed point, against whole numbers of Python and outputs of LiteRT."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops import NodeView, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.fixed import Requantization, definitions
from dovetail_numpy.integer.fixed.arithmetic import (
    Multiplier,
    Rounding,
    divided,
    high_product,
    rounded_quotient,
)
from dovetail_numpy.integer.fixed.functions import FixedPoint
from dovetail_numpy.integer.steps import definition_kernels
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8, S16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_16
FIXED, SINGLE = Requantization.FIXED, Requantization.FIXED_SINGLE

Make = Callable[..., NodeView]

integers = st.integers(-(2**31), 2**31 - 1)


def run(view: NodeView, *stored: Array | None, kind: Requantization = FIXED) -> Array:
    definition = definitions(kind).of(view)
    assert definition is not None
    (found,) = definition.compute(view, stored)
    assert found.dtype == view.outs[0].dtype.storage
    return found


def away(x: Fraction) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)


def up(x: Fraction) -> int:
    """Round to the nearest integer, halves up."""
    return math.floor(x + Fraction(1, 2))


def one(x: int) -> Array:
    return np.array([x], np.int64)


@given(real=st.floats(2.0**-40, 2.0**28))
def test_multipliers_have_31_bits(real: float) -> None:
    found = Multiplier.of(real)
    value = Fraction(int(found.factor)) * Fraction(2) ** (int(found.shift) - 31)
    if real < 2.0**-32:
        assert value == 0
    else:
        assert 2**30 <= int(found.factor) < 2**31
        assert abs(value - Fraction(real)) <= Fraction(real) * Fraction(1, 2**31)


def test_a_mantissa_that_rounds_up_to_1() -> None:
    found = Multiplier.of(1 - 2.0**-40)
    assert (int(found.factor), int(found.shift)) == (2**30, 1)


@given(x=integers, real=st.floats(2.0**-30, 4.0))
def test_products(x: int, real: float) -> None:
    multiplier = Multiplier.of(real)
    factor, shift = int(multiplier.factor), int(multiplier.shift)
    left = min(max(x << max(shift, 0), -(2**31)), 2**31 - 1)
    high = up(Fraction(left * factor, 2**31))
    twice = away(Fraction(high, 2 ** max(-shift, 0)))
    assert multiplier.times(one(x), Rounding.DOUBLE)[0] == twice
    once = up(Fraction(x * factor) * Fraction(2) ** (shift - 31))
    assert multiplier.times(one(x), Rounding.SINGLE)[0] == min(max(once, -(2**31)), 2**31 - 1)


@given(x=st.integers(-(2**46), 2**46), real=st.floats(2.0**-20, 2.0**-4))
def test_products_of_wide_sums(x: int, real: float) -> None:
    multiplier = Multiplier.of(real)
    factor, shift = int(multiplier.factor), int(multiplier.shift)
    narrow = min(up(Fraction(factor, 2**16)), 2**15 - 1)
    expected = up(Fraction(x * narrow) * Fraction(2) ** (shift - 15))
    assert multiplier.times_wide(one(x))[0] == min(max(expected, -(2**31)), 2**31 - 1)
    whole = up(Fraction(x * factor) * Fraction(2) ** (shift - 31))
    assert multiplier.times(one(x), Rounding.SINGLE)[0] == min(max(whole, -(2**31)), 2**31 - 1)


@given(x=integers, exponent=st.integers(0, 31), count=st.integers(1, 5000))
def test_divisions(x: int, exponent: int, count: int) -> None:
    assert divided(one(x), exponent)[0] == away(Fraction(x, 2**exponent))
    assert rounded_quotient(one(x), count)[0] == away(Fraction(x, count))


def test_the_square_of_the_lowest_integer_saturates() -> None:
    assert high_product(one(-(2**31)), -(2**31))[0] == 2**31 - 1
    assert high_product(one(-(2**15)), -(2**15), 16)[0] == 2**15 - 1


@pytest.mark.parametrize("integer_bits", [3, 4, 5])
@pytest.mark.parametrize(("bits", "steps"), [(32, 500), (16, 12)])
def test_functions_are_close_to_real_ones(bits: int, steps: int, integer_bits: int) -> None:
    number = FixedPoint(bits)
    unit = 2.0 ** (integer_bits - bits + 1)
    x = np.linspace(-(2.0**integer_bits), 2.0**integer_bits, 4001)[1:-1]
    raw = np.append(np.rint(x / unit).astype(np.int64), [0, 1, -1])
    real = raw * unit
    one_bits = 2.0 ** (bits - 1)
    below = raw <= 0
    pairs = [
        (number.exp(raw[below], integer_bits), np.exp(real[below])),
        (number.logistic(raw, integer_bits), 1 / (1 + np.exp(-real))),
        (number.tanh(raw, integer_bits), np.tanh(real)),
    ]
    for found, wanted in pairs:
        assert np.abs(found - wanted * one_bits).max() < steps


@pytest.mark.parametrize("kind", [FIXED, SINGLE])
@pytest.mark.parametrize(("dtype", "op"), [(S8, "Conv2d"), (S8, "FullyConnected"), (S16, "Conv2d")])
def test_products_of_nodes(
    node: Make, rng: np.random.Generator, kind: Requantization, dtype: DType, op: str
) -> None:
    count = 48
    grid = ScaleOffset(0.0003) if dtype is S16 else ScaleOffset(0.03, 5)
    scales = rng.uniform(0.001, 0.02, 6).astype(np.float32)
    is_conv = op == "Conv2d"
    x = Spec(dtype, (1, 3, 4, count) if is_conv else (12, count), grid)
    w = Spec(
        S8,
        (1, 1, count, 6) if is_conv else (6, count),
        AxisScaleOffset(3 if is_conv else 0, scales),
    )
    y = Spec(dtype, (1, 3, 4, 6) if is_conv else (12, 6), ScaleOffset(grid.scale * 3, -9))
    low, high = dtype.stored_range()
    data = rng.integers(low, high, x.shape, np.int64).astype(dtype.storage)
    weights = rng.integers(-127, 128, w.shape).astype(np.int8)
    bias = rng.integers(-500, 500, 6, np.int32)
    params: dict[str, Any] = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))} if is_conv else {}
    view = node(op, [x, (w, weights), (Spec(DType.INT_32, (6,)), bias)], [y], **params)
    found = run(view, data, weights, bias, kind=kind).reshape(12, 6)
    matrix = weights.reshape(count, 6).T if is_conv else weights
    sums = (data.reshape(12, count).astype(int) + grid.offset) @ matrix.T.astype(int) + bias
    for i, j in np.ndindex(12, 6):
        assert y.encoding is not None
        assert isinstance(y.encoding, ScaleOffset)
        number = Multiplier.of(grid.scale * float(scales[j]) / y.encoding.scale)
        if dtype is S16:
            expected = int(number.times_wide(one(sums[i, j]))[0])
        else:
            rounding = Rounding.DOUBLE if kind is FIXED else Rounding.SINGLE
            expected = int(number.times(one(sums[i, j]), rounding)[0])
        assert found[i, j] == min(max(expected + 9, low), high)


def test_a_bias_saturates_at_32_bits(node: Make) -> None:
    x, w = Spec(U8, (1, 1), ScaleOffset(1e-20)), Spec(S8, (2, 1), ScaleOffset(1e-20))
    y, b = Spec(S8, (1, 2), ScaleOffset(1e-32)), Spec(S8, (2,), ScaleOffset(1.0))
    weights, bias = np.zeros((2, 1), np.int8), np.array([100, -100], np.int8)
    view = node("FullyConnected", [x, (w, weights), (b, bias)], [y])
    found = run(view, np.zeros((1, 1), np.uint8), weights, bias)
    assert found.tolist() == [[21, -21]]  # 2**31 products of scale 1e-40


def test_addition_with_20_more_bits(node: Make) -> None:
    a, b = Spec(S8, (256,), ScaleOffset(0.02, 3)), Spec(S8, (256,), ScaleOffset(0.05, -7))
    y = Spec(S8, (256,), ScaleOffset(0.06, 1))
    left, right = np.arange(-128, 128, dtype=np.int8), np.arange(-128, 128, dtype=np.int8)[::-1]
    assert all(isinstance(s.encoding, ScaleOffset) for s in (a, b, y))
    sa, sb, sy = (s.encoding.scale for s in (a, b, y))  # type: ignore[union-attr]
    for op, sign in (("ElementWiseAdd", 1), ("ElementWiseSubtract", -1)):
        found = run(node(op, [a, b], [y]), left, right)
        real = ((left + 3.0) * sa + sign * (right - 7.0) * sb) / sy - 1
        assert np.abs(found - np.clip(real, -128, 127)).max() <= 0.5 + 1e-4
        for i in (0, 17, 200):
            parts = [
                away(Fraction(up(Fraction((q << 20) * int(m.factor), 2**31)), 2 ** -int(m.shift)))
                for q, m in (
                    (int(left[i]) + 3, Multiplier.of(sa / (2 * sb))),
                    (int(right[i]) - 7, Multiplier.of(sb / (2 * sb))),
                )
            ]
            m = Multiplier.of(2 * sb / (2**20 * sy))
            total = up(Fraction((parts[0] + sign * parts[1]) * int(m.factor), 2**31))
            assert found[i] == min(max(away(Fraction(total, 2 ** -int(m.shift))) - 1, -128), 127)


SOME = [-128, -90, -57, -33, -12, -5, -1, 0, 2, 7, 19, 40, 66, 101, 127]
# Outputs of the reference kernels of LiteRT 2.3.0 (ai-edge-litert with BUILTIN_REF), int8.
LITERT: list[tuple[str, dict[str, Any], ScaleOffset, ScaleOffset, list[int], list[int]]] = [
    (
        "Softmax",
        {},
        ScaleOffset(0.05, 3),
        ScaleOffset(1 / 256, 128),
        SOME,
        [-128, -128, -128, -128, -128, -128, -128, -128, -128, -128, -127, -126, -119, -76, 62],
    ),
    (
        "Sigmoid",
        {},
        ScaleOffset(0.05, 3),
        ScaleOffset(1 / 256, 128),
        SOME,
        [-128, -125, -112, -81, -28, -6, 6, 10, 16, 31, 64, 101, 120, 127, 127],
    ),
    (
        "Tanh",
        {},
        ScaleOffset(0.02, -3),
        ScaleOffset(1 / 128, 0),
        SOME,
        [-127, -122, -107, -79, -37, -20, -10, -8, -3, 10, 40, 81, 109, 123, 126],
    ),
    (
        "HardSwish",
        {},
        ScaleOffset(0.047, 20),
        ScaleOffset(0.031, 100),
        SOME,
        [-100, -100, -112, -108, -93, -86, -81, -80, -78, -71, -52, -12, 30, 83, 123],
    ),
    (
        "ReduceMean",
        {"axes": [1], "keep_dims": True},
        ScaleOffset(0.047, 20),
        ScaleOffset(0.0071, 22),
        SOME,
        [126],
    ),
    (
        "ReduceMean",
        {"axes": [1], "keep_dims": True},
        ScaleOffset(0.047, 20),
        ScaleOffset(0.0071, 22),
        SOME[:11],
        [-69],
    ),
    (
        "ReduceMean",
        {"axes": [1], "keep_dims": True},
        ScaleOffset(0.047, 20),
        ScaleOffset(0.0071, 22),
        SOME[:7],
        [-128],
    ),
]


@pytest.mark.parametrize(("op", "params", "source", "target", "data", "expected"), LITERT)
def test_outputs_of_litert(
    node: Make,
    op: str,
    params: dict[str, Any],
    source: ScaleOffset,
    target: ScaleOffset,
    data: Sequence[int],
    expected: Sequence[int],
) -> None:
    x, y = Spec(S8, (1, len(data)), source), Spec(S8, (1, len(expected)), target)
    found = run(node(op, [x], [y], **params), np.array([data], np.int8))
    np.testing.assert_array_equal(found, [expected])


@pytest.mark.parametrize(("op", "step", "zero"), [("Sigmoid", 1 / 256, -128), ("Tanh", 1 / 128, 0)])
@pytest.mark.parametrize("dtype", [S8, U8])
def test_functions_of_8_bits(node: Make, dtype: DType, op: str, step: float, zero: int) -> None:
    shift = 128 if dtype is U8 else 0
    x = Spec(dtype, (256,), ScaleOffset(0.06, 11 - shift))
    y = Spec(dtype, (256,), ScaleOffset(step, -zero - shift))
    every = np.arange(256) - 128 + shift
    found = run(node(op, [x], [y]), every.astype(dtype.storage)).astype(int) - shift
    real = (np.arange(-128, 128) + 11) * float(np.float32(0.06))
    wanted = 1 / (1 + np.exp(-real)) if op == "Sigmoid" else np.tanh(real)
    exact = np.clip(wanted / step + zero, -128, 127)
    assert np.abs(found - exact).max() <= 0.5 + 1e-5


# Outputs of the same kernels for these int16.
WIDE = [-32768, -30000, -17321, -9000, -4242, -777, -1, 0, 1, 100, 3000, 8191, 20011, 32767]
LITERT_WIDE = [
    (
        "Sigmoid",
        2.0**-12,
        [11, 22, 471, 3277, 8585, 14835, 16382, 16384, 16386, 16584, 22129, 28861, 32522, 32757],
    ),
    (
        "Sigmoid",
        0.00031,
        [1, 3, 152, 1896, 6936, 14420, 16381, 16384, 16387, 16638, 23497, 30371, 32702, 32767],
    ),
    (
        "Tanh",
        2.0**-12,
        [-32767, -32767, -32754, -31968, -25433, -6142, -8, 0, 8, 800, 20465, 31588, 32764, 32767],
    ),
    (
        "Tanh",
        0.00031,
        [-32767, -32767, -32767, -32522, -28362, -7744, -11, 0, 11, 1016, 23940, 32362],
    ),
]


@pytest.mark.parametrize(("op", "step", "expected"), LITERT_WIDE)
def test_functions_of_16_bits(node: Make, op: str, step: float, expected: list[int]) -> None:
    count = len(expected)
    x, y = Spec(S16, (count,), ScaleOffset(step)), Spec(S16, (count,), ScaleOffset(2.0**-15))
    found = run(node(op, [x], [y]), np.array(WIDE[:count], np.int16))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [S8, U8])
def test_softmax(node: Make, rng: np.random.Generator, dtype: DType) -> None:
    low, high = dtype.stored_range()
    x, y = (
        Spec(dtype, (5, 30), ScaleOffset(0.04, -3)),
        Spec(dtype, (5, 30), ScaleOffset(1 / 256, -low)),
    )
    data = rng.integers(low, high, (5, 30)).astype(dtype.storage)
    found = run(node("Softmax", [x], [y]), data).astype(int) - low
    powers = np.exp(data * 0.04)
    assert np.abs(found - 256 * powers / powers.sum(1, keepdims=True)).max() <= 0.5 + 1e-3


# h of the same runtime's Lstm; gates in the order input, forget, cell, output.
LITERT_LSTM: dict[tuple[str, ...], list[int]] = {
    ("plain",): [-4, -9, -6, 15, -29, -17, 5, 9, 1, -28, -11, 4, 5, -24, -6, -1],
    ("coupled",): [-5, -11, -8, 5, -25, -21, 6, 3, 16, -33, -13, 1, 19, -25, -7, 0],
    ("peephole",): [-4, -9, -6, 16, -31, -18, 5, 9, 2, -31, -11, 4, 5, -28, -6, -1],
    ("projection",): [-1, -1, -8, -9, -21, -27, -25, -3, -18, -6, -21, -19, -14, 8, -19, -38],
    ("coupled", "peephole", "projection"): [
        -9,
        2,
        -10,
        -12,
        -28,
        -28,
        -30,
        -11,
        -20,
        1,
        -25,
        -36,
        -17,
        15,
        -21,
        -50,
    ],
}


@pytest.mark.parametrize("kinds", LITERT_LSTM, ids="+".join)
def test_lstm_of_litert(node: Make, kinds: tuple[str, ...]) -> None:
    specs, stored, outs, params = lstm_inputs(kinds)
    view = node("Lstm", specs, outs, **params)
    definition = definitions(FIXED).of(view)
    assert definition is not None
    h, cell, last = definition.compute(view, stored)
    np.testing.assert_array_equal(h.reshape(-1), LITERT_LSTM[kinds])
    np.testing.assert_array_equal(last, h[-1])
    assert cell.dtype == np.int16


def pattern(shape: tuple[int, ...], seed: int, low: int = -127, high: int = 127) -> Array:
    """Return integers without any order to speak of."""
    count = math.prod(shape)
    mixed = (np.arange(count, dtype=np.int64) * 7919 + seed * 104729) ** 2 % 99991
    return (mixed % (high - low + 1) + low).reshape(shape)


def lstm_inputs(
    kinds: tuple[str, ...],
) -> tuple[list[Spec | None], list[Array | None], list[Spec], dict[str, Any]]:
    """Return specs and values of the inputs of an Lstm, specs of its results, and params."""
    steps, batch, features, units = 4, 1, 3, 4
    x = Spec(S8, (steps, batch, features), ScaleOffset(0.015, -9))
    state = Spec(S8, (batch, units), ScaleOffset(0.0075, 4))
    specs: list[Spec | None] = [None] * 24
    specs[0] = x
    gates = [(16, 17, 21, 18), (1, 4, 7, 19), (2, 5, 8, None), (3, 6, 9, 20)]
    for weights, recurrent, bias, peephole in gates:
        specs[weights] = Spec(S8, (units, features), ScaleOffset(0.006))
        specs[recurrent] = Spec(S8, (units, units), ScaleOffset(0.007))
        specs[bias] = Spec(DType.SFIXED_POINT_32, (units,))
        if "peephole" in kinds and peephole is not None:
            specs[peephole] = Spec(S16, (units,), ScaleOffset(0.6 / 32767))
    params: dict[str, Any] = {}
    if "projection" in kinds:
        specs[22] = Spec(S8, (units, units), ScaleOffset(0.008))
        specs[23] = Spec(DType.SFIXED_POINT_32, (units,))
        params = {"hidden_state_qscale": 1 / 127, "hidden_state_offset": -3}
    if "coupled" in kinds:
        for i in (16, 17, 18, 21):
            specs[i] = None
    stored: list[Array | None] = []
    for i, spec in enumerate(specs):
        wide = spec is not None and spec.dtype.bits > 8
        limit = 2000 if wide and i not in (18, 19, 20) else 30000 if wide else 127
        values = None if spec is None else pattern(spec.shape, i, -limit, limit)
        stored.append(None if values is None or spec is None else values.astype(spec.dtype.storage))
    cell = Spec(S16, (batch, units), ScaleOffset(2.0**-11))
    return specs, stored, [Spec(S8, (steps, batch, units), state.encoding), cell, state], params


def test_average_does_not_count_padding(node: Make) -> None:
    x = Spec(S8, (1, 3, 3, 1), ScaleOffset(0.1, 4))
    y = Spec(S8, (1, 2, 2, 1), x.encoding)
    data = np.array([[-7, 2, 4], [5, -6, 7], [9, 9, -128]], np.int8).reshape(x.shape)
    params: dict[str, Any] = {"filter_size": (2, 2), "stride": (2, 2)}
    params |= {"pad_amount": ((1, 0), (1, 0)), "count_pad_for_edges": False}
    found = run(node("PoolAvg2d", [x], [y], **params), data)
    # -7; (2 + 4) / 2; (5 + 9) / 2; (-6 + 7 + 9 - 128) / 4, a half, away from zero
    np.testing.assert_array_equal(found.reshape(-1), [-7, 3, 7, -30])


def test_other_nodes_have_the_definition_in_float(node: Make, rng: np.random.Generator) -> None:
    grid = ScaleOffset(0.1, -3)
    x, y = Spec(U8, (2, 6), grid), Spec(U8, (3, 4), grid)
    views = [
        node("Reshape", [x], [y]),
        node("Sigmoid", [x], [Spec(U8, (2, 6), ScaleOffset(0.01))]),
    ]
    data = rng.integers(0, 255, (2, 6)).astype(np.uint8)
    for view in views:
        plain = DEFINITIONS.of(view)
        assert plain is not None
        np.testing.assert_array_equal(run(view, data), plain.compute(view, [data])[0])
    assert definitions(Requantization.FLOAT) is DEFINITIONS
    assert set(definitions(FIXED)) >= set(DEFINITIONS)


def test_what_32_bits_do_not_hold_is_not_cut(node: Make) -> None:
    """LiteRT has no products of uint16, and no such mean."""
    u16 = DType.UFIXED_POINT_16
    above, below = (Spec(u16, (2,), ScaleOffset(2.0**-16, z)) for z in (0, -65535))
    whole, mean = (Spec(u16, (n,), above.encoding) for n in (40000, 1))
    product = round(60000**2 / 65536)
    for view, data, wanted in (
        (node("ElementWiseMultiply", [above] * 2, [above]), (60000, 60000), product),
        (node("Prelu", [below, above], [below]), (5535, 60000), 65535 - product),
        (node("ReduceMean", [whole], [mean], axes=[0], keep_dims=True), (60000,), 60000),
    ):
        stored = [np.full(s.shape, x, np.uint16) for s, x in zip(view.ins, data, strict=True)]
        assert set(run(view, *stored).tolist()) == {wanted}, view.op_type


def test_plans_run_by_chosen_definitions() -> None:
    x, y = Spec(S8, (1, 15), ScaleOffset(0.047, 20)), Spec(S8, (1, 1), ScaleOffset(0.0071, 22))
    graph = Graph("net")
    data = graph.add_tensor(
        Tensor("x", x.dtype, x.shape, TensorKind.APP_WRITE, encoding=x.encoding)
    )
    out = Tensor("y", y.dtype, y.shape, TensorKind.APP_READ, encoding=y.encoding)
    add(graph, "ReduceMean", [data], name="mean", outputs=out, axes=[1], keep_dims=True)
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    stored = np.array([[-128, *[-9] * 13, 127]], np.int8)
    view = checked.nodes[0]
    for kind in Requantization:
        kernels = definition_kernels(definitions(kind))
        prepared = PlanPrepared(build_plan(checked, kernels, WeightStore(), None))
        outputs = {"y": np.zeros((1, 1), np.int8)}
        prepared.run({"x": stored}, outputs, RunControl())
        np.testing.assert_array_equal(outputs["y"], run(view, stored, kind=kind))
