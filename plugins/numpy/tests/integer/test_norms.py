"""Softmax and normalizations by definition, against formulas written out in real numbers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.functions import exp, log, sigmoid, tanh
from dovetail_numpy.integer.norms import moments, power_table

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
F32 = DType.FLOAT_32

Make = Callable[..., NodeView]
Run = Callable[..., list[Array]]


def random(rng: np.random.Generator, spec: Spec) -> Array:
    if spec.dtype.is_float:
        return rng.standard_normal(spec.shape, np.float32)
    low, high = spec.dtype.stored_range()
    return rng.integers(low, high, spec.shape, np.int64, endpoint=True).astype(spec.dtype.storage)


def real(stored: Array, spec: Spec) -> Array:
    if spec.dtype.is_float:
        return stored.astype(np.float64)
    assert isinstance(spec.encoding, ScaleOffset)
    return (stored.astype(np.float64) + spec.encoding.offset) * spec.encoding.scale


def check(found: Array, wanted: Array, spec: Spec) -> None:
    """Compare stored integers with real numbers that have no rounding to speak of."""
    assert isinstance(spec.encoding, ScaleOffset)
    low, high = spec.dtype.stored_range()
    exact = np.clip(wanted / spec.encoding.scale - spec.encoding.offset, low, high)
    # what rounds to nearest is half a step away; the rest is noise of float64
    np.testing.assert_array_less(np.abs(found - exact), 0.5 + 1e-5)
    assert len(np.unique(found)) > 4


def grid(dtype: DType, low: float, high: float) -> ScaleOffset | None:
    """Return the encoding of a range; None for floats."""
    if dtype.is_float:
        return None
    scale = (high - low) / (2**dtype.bits - 1)
    return ScaleOffset(scale, round(low / scale) - dtype.stored_range()[0])


@pytest.mark.parametrize(("op", "low", "high"), [("Softmax", 0.0, 0.2), ("LogSoftmax", -16, 0)])
@pytest.mark.parametrize("dtype", [U8, S8, U16, S16])
@pytest.mark.parametrize("beta", [1.0, -0.3])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    op: str,
    low: float,
    high: float,
    dtype: DType,
    beta: float,
    axis: int,
) -> None:
    x = Spec(dtype, (9, 11, 13), grid(dtype, -4.0, 5.0))
    y = Spec(dtype, x.shape, grid(dtype, low, high))
    data = random(rng, x)
    (found,) = run_node(node(op, [x], [y], axis=axis, beta=beta), data)
    shifted = real(data, x) * float(np.float32(beta))
    shifted -= shifted.max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    check(found, np.exp(shifted) / total if op == "Softmax" else shifted - np.log(total), y)


def test_softmax_of_floats(node: Make, run_node: Run, rng: np.random.Generator) -> None:
    x, y = Spec(U8, (3, 100), ScaleOffset(0.1, -9)), Spec(F32, (3, 100))
    data = random(rng, x)
    (found,) = run_node(node("Softmax", [x], [y]), data)
    powers = np.exp(real(data, x))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-6, atol=1e-10)


def test_softmax_of_equal_logits_is_exact(node: Make, run_node: Run) -> None:
    x, y = Spec(U8, (1, 4096), ScaleOffset(3.0, -9)), Spec(U16, (1, 4096), ScaleOffset(2.0**-16))
    (found,) = run_node(node("Softmax", [x], [y]), np.full((1, 4096), 77, np.uint8))
    np.testing.assert_array_equal(found, np.full((1, 4096), 16, np.uint16))


def normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centered = x - x.mean(axes, keepdims=True)
    return centered / np.sqrt(np.square(centered).mean(axes, keepdims=True) + epsilon)


NORMS: list[tuple[str, dict[str, Any], Callable[[Array], Array], tuple[int, ...]]] = [
    ("LayerNorm", {"axes": [2], "epsilon": 0.25}, lambda x: normalized(x, (2,), 0.25), (8,)),
    ("LayerNorm", {"axes": [2, 0]}, lambda x: normalized(x, (0, 2), 1e-3), (8, 4)),
    (
        "RmsNorm",
        {"axes": [2], "epsilon": 0.5},
        lambda x: x / np.sqrt(np.square(x).mean(2, keepdims=True) + 0.5),
        (8,),
    ),
    ("InstanceNorm", {"epsilon": 0.5}, lambda x: normalized(x, (1,), 0.5), (8,)),
    ("InstanceNorm", {"region": 1}, lambda x: normalized(x, (2,), 1e-12), (8,)),
    (
        "InstanceNorm",
        {"region": 2, "normalize_variance": False},
        lambda x: x - x.mean((1, 2), keepdims=True),
        (8,),
    ),
    (
        "InstanceNorm",
        {"mode": 1, "epsilon": 4.0},
        lambda x: x / np.sqrt(np.square(x).sum(1, keepdims=True) + 4.0),
        (8,),
    ),
    (
        "GroupNorm",
        {"group": 4, "epsilon": 0.5},
        lambda x: normalized(x.reshape(4, 6, 4, 2), (1, 3), 0.5).reshape(x.shape),
        (8,),
    ),
]


@pytest.mark.parametrize(("op", "params", "formula", "factors"), NORMS)
@pytest.mark.parametrize(
    ("x_type", "gamma_type", "beta_type"),
    [(U8, U8, DType.SFIXED_POINT_32), (U16, S16, U16), (U16, U8, U8), (S8, F32, F32)],
)
def test_norms(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    op: str,
    params: dict[str, Any],
    formula: Callable[[Array], Array],
    factors: tuple[int, ...],
    x_type: DType,
    gamma_type: DType,
    beta_type: DType,
) -> None:
    x = Spec(x_type, (4, 6, 8), grid(x_type, -3.0, 2.0))
    y = Spec(x_type, x.shape, grid(x_type, -2.0, 2.5))
    data = random(rng, x)
    wanted = formula(real(data, x))
    gamma = Spec(gamma_type, factors, grid(gamma_type, -1.0, 1.5))
    beta = Spec(beta_type, factors, grid(beta_type, -1.0, 1.0))
    stored = [random(rng, gamma), random(rng, beta)]
    spread = [real(values, spec) for values, spec in zip(stored, (gamma, beta), strict=True)]
    if len(factors) == 2:
        spread = [factor.T[:, None, :] for factor in spread]
    (found,) = run_node(node(op, [x, gamma, beta], [y], **params), data, *stored)
    check(found, wanted * spread[0] + spread[1], y)


def test_a_norm_without_factors(node: Make, run_node: Run, rng: np.random.Generator) -> None:
    x, y = Spec(U8, (4, 9), ScaleOffset(0.1, -77)), Spec(U8, (4, 9), ScaleOffset(0.02, -128))
    data = random(rng, x)
    (found,) = run_node(node("RmsNorm", [x], [y], axes=[1]), data)
    numbers = real(data, x)
    mean = np.square(numbers).mean(1, keepdims=True)
    check(found, numbers / np.sqrt(mean + float(np.float32(1e-6))), y)


@pytest.mark.parametrize("dtype", [U8, U16])
@pytest.mark.parametrize("axes", [[1], [2, 0]])
def test_l2_norm(
    node: Make, run_node: Run, rng: np.random.Generator, dtype: DType, axes: list[int]
) -> None:
    x = Spec(dtype, (4, 6, 8), grid(dtype, -3.0, 2.0))
    y = Spec(dtype, x.shape, grid(dtype, -0.6, 0.7))
    data = random(rng, x)
    (found,) = run_node(node("L2Norm", [x], [y], axes=axes), data)
    numbers = real(data, x)
    check(found, numbers / np.sqrt(np.square(numbers).sum(tuple(axes), keepdims=True)), y)
    assert isinstance(x.encoding, ScaleOffset)
    zeros = np.full(x.shape, -x.encoding.offset, dtype.storage)
    (found,) = run_node(node("L2Norm", [x], [y], axes=axes), zeros)
    np.testing.assert_array_equal(real(found, y), 0)


@pytest.mark.parametrize("region", [0, 1])
def test_lrn(node: Make, run_node: Run, rng: np.random.Generator, region: int) -> None:
    x = Spec(U8, (2, 5, 6, 7), grid(U8, -3.0, 2.0))
    y = Spec(U8, x.shape, grid(U8, -1.0, 1.0))
    data = random(rng, x)
    params = {"alpha": 0.25, "beta": 0.75, "bias": 1.5, "radius": 2, "region": region}
    (found,) = run_node(node("Lrn", [x], [y], **params), data)
    numbers = real(data, x)
    total = np.zeros(x.shape)
    reach = range(-2, 3)
    for n, i, j, c in np.ndindex(x.shape):
        for a, b in [(a, b) for a in reach for b in reach] if region else [(0, b) for b in reach]:
            at = (n, i + a, j + b, c) if region else (n, i, j, c + b)
            if all(0 <= k < size for k, size in zip(at, x.shape, strict=True)):
                total[n, i, j, c] += numbers[at] ** 2
    check(found, numbers / (1.5 + 0.25 * total) ** 0.75, y)


def test_lrn_of_a_huge_radius_takes_all(node: Make, run_node: Run) -> None:
    x = Spec(U8, (1, 3), ScaleOffset(1.0))
    y = Spec(U8, (1, 3), ScaleOffset(2.0**-8))
    params = {"alpha": 1.0, "beta": 1.0, "bias": 1.0, "radius": 2**31 - 1}
    (found,) = run_node(node("Lrn", [x], [y], **params), np.uint8([[1, 3, 1]]))
    np.testing.assert_array_equal(found, [[21, 64, 21]])  # over 12


def test_moments_are_exact_far_from_0() -> None:
    levels = np.array([[65535, 65535, 65535], [65535, 65534, 65535]]).repeat(1 << 16, 1)
    centered, variance = moments(levels, (1,))
    assert not centered[0].any()
    assert variance[0, 0] == 0.0
    np.testing.assert_allclose(variance[1, 0], 2 / 9, rtol=1e-15)


def test_constant_data_without_epsilon_are_0(node: Make, run_node: Run) -> None:
    x, y = Spec(U8, (2, 6), ScaleOffset(0.1, -3)), Spec(U8, (2, 6), ScaleOffset(0.1, -99))
    view = node("LayerNorm", [x], [y], axes=[1], epsilon=0.0)
    (found,) = run_node(view, np.full((2, 6), 42, np.uint8))
    np.testing.assert_array_equal(found, np.full((2, 6), 99))


@pytest.mark.parametrize("offset", [5, -256])
def test_offsets_outside_the_type_are_not_defined(node: Make, offset: int) -> None:
    x, y = Spec(U8, (2, 6), ScaleOffset(0.1, offset)), Spec(U8, (2, 6), ScaleOffset(0.1))
    assert DEFINITIONS.of(node("Softmax", [x], [y])) is None


def test_powers_are_rounded_from_exact_ones() -> None:
    step = 0.0078125 * 1.37
    table = power_table(step, 65536)
    with localcontext() as context:
        context.prec = 60
        for d in (0, 1, 2, 100, 255, 1000, 2222):
            exact = (Decimal(-(step * d))).exp() * 2**35
            assert int(table[d]) == int(exact.to_integral_value())
    assert table[0] == 2**35


def test_functions_are_accurate() -> None:
    x = np.concatenate([np.linspace(-40, 40, 4001), [0.0, 1e-9, -1e-9, 700.0, -700.0]])
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=8e-16)
    np.testing.assert_allclose(log(np.exp(x)), x, rtol=4e-16, atol=3e-16)
    np.testing.assert_allclose(sigmoid(x), 1 / (1 + np.exp(-x)), rtol=1e-15)
    np.testing.assert_allclose(tanh(x), np.tanh(x), rtol=0, atol=4e-16)
    np.testing.assert_array_equal(exp(np.array([-1e9, 1e9, 0])), [0, np.inf, 1])
