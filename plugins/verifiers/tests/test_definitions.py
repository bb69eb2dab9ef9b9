"""The verifiers of single elements, next to their formulas in plain NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.ir import Array, DType, ScaleOffset, dequantize, quantize
from dovetail.plugins.verifiers import verifier
from dovetail.verification import Worst

# Sums of the same terms in another order.
CLOSE = {"rel_tol": 1e-9, "abs_tol": 1e-12}


def rtol_atol(g: Array, t: Array) -> float:
    return float(100 * np.mean(np.abs(t - g) > 0.01 + 0.01 * np.abs(g))) if g.size else 0.0


def adjusted(g: Array, t: Array) -> float:
    step = (g.max(initial=0) - g.min(initial=0)) / 256
    error = np.abs(t - g).max(initial=0)
    return float(error / step) if step else (0.0 if error == 0 else math.inf)


def l1_error(g: Array, t: Array) -> float:
    return float(np.abs(t - g).sum())


def mae(g: Array, t: Array) -> float:
    return float(np.abs(t - g).mean()) if g.size else 0.0


def mse(g: Array, t: Array) -> float:
    return float(((t - g) ** 2).mean()) if g.size else 0.0


def scaled_diff(g: Array, t: Array) -> float:
    error, size = np.abs(t - g).max(initial=0), np.abs(g).max(initial=0)
    return float(error / size) if size else (0.0 if error == 0 else math.inf)


def sqnr(g: Array, t: Array) -> float:
    signal, noise = (g**2).sum(), ((t - g) ** 2).sum()
    if noise == 0:
        return math.inf
    return float(10 * np.log10(signal / noise)) if signal else -math.inf


def cosine(g: Array, t: Array) -> float:
    norms = np.linalg.norm(g.reshape(-1)) * np.linalg.norm(t.reshape(-1))
    return float((g * t).sum() / norms) if norms else float(g.any() == t.any())


PLAIN: dict[str, Callable[[Array, Array], float]] = {
    "RtolAtol": rtol_atol,
    "AdjustedRtolAtol": adjusted,
    "L1Error": l1_error,
    "MAE": mae,
    "MSE": mse,
    "ScaledDiff": scaled_diff,
    "SQNR": sqnr,
    "CosineSimilarity": cosine,
}
each = pytest.mark.parametrize("name", PLAIN)

TYPES = [
    np.float16, np.float32, np.float64, np.bool_,
    np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
]  # fmt: skip


@st.composite
def pairs(draw: Any) -> tuple[Array, Array]:
    """Draw two arrays of one shape and of any two types; floats are of moderate size."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6))
    found = []
    for dtype in draw(st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES))):
        elements = None
        if np.dtype(dtype).kind == "f":
            # subnormal numbers would be rounded by float16
            elements = st.floats(-1000, 1000, width=16, allow_subnormal=False)
        found.append(draw(hnp.arrays(dtype, shape, elements=elements)))
    one, other = found
    return one, draw(st.sampled_from([other, one]))


def plain(name: str, golden: Array, target: Array) -> float:
    return PLAIN[name](golden.astype(np.float64), target.astype(np.float64))


def same(found: float, expected: float) -> bool:
    return found == expected or math.isclose(found, expected, **CLOSE)


@each
@settings(max_examples=60)
@given(data=pairs())
def test_values_are_those_of_the_formulas(name: str, data: tuple[Array, Array]) -> None:
    found = verifier(name).compare(*data)
    assert same(found.value, plain(name, *data)), (found, plain(name, *data))
    assert found.elements == data[0].size
    assert found.details["unequal_not_finite"] == 0


@each
@settings(max_examples=60)
@given(data=pairs())
def test_the_worst_element_is_in_the_arrays(name: str, data: tuple[Array, Array]) -> None:
    golden, target = (a.astype(np.float64) for a in data)
    worst = verifier(name).compare(*data).worst
    error = np.abs(target - golden)
    if not error.any():
        assert worst is None
        return
    assert worst is not None
    assert worst.block == 0
    assert (worst.golden, worst.target) == (golden[worst.index], target[worst.index])
    if name != "RtolAtol":
        assert error[worst.index] == error.max()
    else:
        excess = error - 0.01 - 0.01 * np.abs(golden)
        assert same(excess[worst.index], excess[error > 0].max())


@each
@settings(max_examples=60)
@given(data=pairs(), cuts=st.lists(st.integers(0, 6), max_size=3))
def test_a_stream_is_the_concatenated_tensor(
    name: str, data: tuple[Array, Array], cuts: list[int]
) -> None:
    golden, target = (np.atleast_1d(a) for a in data)
    run = verifier(name).begin()
    bounds = [0, *sorted(cuts), len(golden)]
    for start, end in itertools.pairwise(bounds):
        run.update(golden[start:end], target[start:end])
    whole, found = verifier(name).compare(golden, target), run.finish()
    assert same(found.value, whole.value)
    assert found.passed == whole.passed or same(found.value, found.threshold)
    assert found.elements == whole.elements


@each
@pytest.mark.parametrize("size", [8191, 8192, 8193, 50_000])
def test_long_tensors_are_compared_whole(name: str, size: int) -> None:
    rng = np.random.default_rng(size)
    golden = rng.normal(0, 1, size).astype(np.float32)
    target = golden + rng.normal(0, 1e-2, size).astype(np.float32)
    target[-1] += 7
    found = verifier(name).compare(golden, target)
    assert same(found.value, plain(name, golden, target))
    assert found.worst == Worst(0, (size - 1,), golden[-1], target[-1])


@each
def test_layout_and_byte_order_do_not_matter(name: str) -> None:
    rng = np.random.default_rng(3)
    golden, target = rng.normal(0, 1, (2, 30, 40, 20))
    plainly = verifier(name).compare(golden, target)
    forms: list[Callable[[Array], Array]] = [
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1].copy()[::-1],
        lambda a: a.astype(">f8"),
    ]
    for form in forms:
        found = verifier(name).compare(form(golden), target)
        assert same(found.value, plainly.value)
        assert found.worst == plainly.worst


@each
def test_the_arrays_are_not_changed(name: str) -> None:
    golden, target = np.array([1, np.nan, np.inf, -3]), np.array([1, 2, np.inf, np.nan])
    copies = golden.copy(), target.copy()
    for array in (golden, target):
        array.setflags(write=False)
    verifier(name).compare(golden, target)
    np.testing.assert_array_equal(golden, copies[0])
    np.testing.assert_array_equal(target, copies[1])


PERFECT = {name: 0.0 for name in PLAIN} | {"SQNR": math.inf, "CosineSimilarity": 1.0}
UNDEFINED = {name: math.inf for name in PLAIN} | {
    "RtolAtol": 25.0,
    "SQNR": -math.inf,
    "CosineSimilarity": math.nan,
}


@each
@pytest.mark.parametrize(
    "values",
    [(), (0, 0), (1, math.nan), (math.inf, -math.inf, 2), (math.nan,), (5e-324, -0.0), (1e308,)],
)
def test_a_tensor_matches_itself(name: str, values: tuple[float, ...]) -> None:
    found = verifier(name).compare(np.array(values), np.array(values))
    assert found.passed
    assert (found.value, found.worst) == (PERFECT[name], None)
    assert found.details["golden_nan"] == sum(map(math.isnan, values))
    assert found.details["target_infinite"] == sum(map(math.isinf, values))


@each
@pytest.mark.parametrize(
    ("golden", "target"),
    [
        (1, math.nan), (math.nan, 1), (math.inf, 1), (1, -math.inf),
        (math.inf, -math.inf), (math.nan, math.inf), (-math.inf, math.nan),
    ],
)  # fmt: skip
def test_values_that_are_not_finite_in_one_tensor(name: str, golden: float, target: float) -> None:
    found = verifier(name).compare(np.array([1, 2, golden, 3]), np.array([1, 9, target, 3.0]))
    assert not found.passed
    if name == "RtolAtol":
        assert found.value == 50
    else:
        assert repr(found.value) == repr(UNDEFINED[name])
    assert found.details["unequal_not_finite"] == 1
    assert found.details["largest_error"] == math.inf
    assert found.worst is not None
    assert found.worst.index == (2,)
    assert repr((found.worst.golden, found.worst.target)) == repr((float(golden), float(target)))


@each
def test_matching_values_that_are_not_finite_do_not_enter_the_sums(name: str) -> None:
    golden, target = np.array([3.0, 4, math.nan, math.inf]), np.array([3.5, 4, math.nan, math.inf])
    found = verifier(name).compare(golden, target)
    expected = plain(name, golden[:2], target[:2])
    assert same(found.value, expected / 2 if name == "RtolAtol" else expected)
    assert (found.details["golden_nan"], found.details["target_infinite"]) == (1, 1)


ZEROS = {
    "RtolAtol": 50.0, "AdjustedRtolAtol": math.inf, "L1Error": 1.0, "MAE": 0.5, "MSE": 0.5,
    "ScaledDiff": math.inf, "SQNR": -math.inf, "CosineSimilarity": 0.0,
}  # fmt: skip


@each
def test_a_golden_tensor_of_zeros(name: str) -> None:
    found = verifier(name).compare(np.zeros(2), np.array([0.0, 1]))
    assert found.value == ZEROS[name]
    assert not found.passed


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e170, 1e300])
def test_ratios_do_not_depend_on_the_scale(size: float) -> None:
    golden, target = np.array([3.0, -4, 0]), np.array([3.0, -4.5, 0.1])
    for name in ("SQNR", "CosineSimilarity", "ScaledDiff", "AdjustedRtolAtol"):
        expected = plain(name, golden, target)
        found = verifier(name).compare(golden * size, target * size)
        assert math.isclose(found.value, expected, rel_tol=1e-9), name


def test_blocks_of_very_different_sizes_are_added() -> None:
    run = verifier("SQNR").begin()
    for size in (1e-200, 1e200, 1e-200):
        run.update(np.array([3 * size]), np.array([3.3 * size]))
    assert math.isclose(run.finish().value, 20, rel_tol=1e-9)
    run = verifier("MSE").begin()
    run.update(np.array([1e-300]), np.array([0.0]))
    run.update(np.array([1.0]), np.array([0.0]))
    assert run.finish().value == 0.5


def test_a_mean_square_beyond_float64_is_infinite() -> None:
    assert verifier("MSE").compare(np.array([1e200]), np.array([-1e200])).value == math.inf
    assert verifier("MAE").compare(np.array([1e308]), np.array([-1e308])).value == math.inf


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_differences_of_large_integers_are_exact(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    golden = np.array([limits.max, limits.min, 5], dtype)
    target = np.array([limits.max - 1, limits.min + 3, 5], dtype)
    found = verifier("L1Error").compare(golden, target)
    assert found.value == 4
    assert found.worst is not None
    assert found.worst.index == (1,)
    assert verifier("MAE").compare(golden[:1], golden[1:2]).value == float(2**64 - 1)


def test_float16_is_compared_without_overflow() -> None:
    golden, target = np.array([60000, -60000], np.float16), np.array([-60000, 60000], np.float16)
    assert verifier("MAE").compare(golden, target).value == 120_000
    assert verifier("CosineSimilarity").compare(golden, target).value == -1


def test_quantized_tensors_are_compared_as_real_values() -> None:
    golden = np.linspace(-1, 1, 101, dtype=np.float32)
    encoding = ScaleOffset(2 / 255, -128)
    stored = quantize(golden, encoding, DType.UFIXED_POINT_8)
    found = verifier("AdjustedRtolAtol").compare(golden, dequantize(stored, encoding))
    assert 0.4 < found.value < 0.51  # half a step, and an encoding of 255 steps
    other = ScaleOffset(1 / 255, -128)
    again = quantize(golden / 2, other, DType.UFIXED_POINT_8)
    same_bits = verifier("ScaledDiff").compare(
        dequantize(stored, encoding), dequantize(again, other)
    )
    assert np.array_equal(stored, again)
    assert math.isclose(same_bits.value, 0.5, rel_tol=1e-6)
