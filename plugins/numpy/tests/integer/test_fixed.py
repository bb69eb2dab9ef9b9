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

from dovetail.ir import Array, AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
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
