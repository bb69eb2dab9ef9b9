"""Rounding to float16 in float32, and conversions: what NumPy's conversions give."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail_numpy.kernels import halves

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
BEYOND = [65504, 65519.996, 65520, 65536, 1e5, 3e38, np.inf, 2.0**-25, 1.5 * 2.0**-25, 1e-45]


def numbers(kind: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        match kind:
            case "halves":
                return ALL
            case "above":
                return np.nextafter(ALL, np.float32(np.inf))
            case "below":
                return np.nextafter(ALL, np.float32(-np.inf))
            case "between":
                return (ALL[:-1] + ALL[1:]) / 2
            case "beyond":
                return np.array([*BEYOND, *(-x for x in BEYOND), np.nan], np.float32)
    bits = np.random.default_rng(5).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("kind", ["halves", "above", "below", "between", "beyond", "any"])
@pytest.mark.parametrize("in_place", [False, True])
def test_it_rounds_as_a_conversion_does(kind: str, in_place: bool) -> None:
    x = numbers(kind).copy()
    out = x if in_place else np.empty_like(x)
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16).astype(np.float32)
        halves.round_to_half(x, out, np.empty(min(x.size, halves.BLOCK), np.float32))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("kind", ["halves", "above", "below", "between", "beyond", "any"])
def test_conversion_to_halves(kind: str) -> None:
    x = numbers(kind)
    found = np.empty(x.size, np.float16)
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
        halves.to_halves(x, found, np.empty(2 * min(x.size, halves.BLOCK), np.float32))
    np.testing.assert_array_equal(found, wanted)
    numeric = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numeric], np.signbit(wanted)[numeric])


@pytest.mark.parametrize("only_finite", [False, True])
def test_conversion_from_halves(only_finite: bool) -> None:
    x = ALL.astype(np.float16)
    x = x[np.isfinite(x)] if only_finite else x
    found = np.empty(x.size, np.float32)
    halves.from_halves(x, found)
    np.testing.assert_array_equal(found, x.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -np.nan])
def test_halves_that_are_not_finite(number: float) -> None:
    x = np.array([1, number, -2], np.float16)
    found = np.empty(3, np.float32)
    halves.from_halves(x, found)
    np.testing.assert_array_equal(found, x.astype(np.float32))
