"""Transforms against their sums, written out."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array

Run = Callable[..., Any]
# float32 against float64, sums of up to 64 products of numbers near 1
TOLERANCE = {"rtol": 1e-5, "atol": 2e-5}


def rotated(x: Array, angles: Array, turned: int, interleaved: bool) -> Array:
    """Multiply each pair, as a complex number, with the unit number of its angle."""
    result = x.astype(np.float64)
    for n, head, step in np.ndindex(x.shape[:3]):
        for i in range(turned // 2):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + turned // 2)
            pair = complex(x[n, head, step, a], x[n, head, step, b])
            pair *= cmath.exp(1j * angles[n, step, i])
            result[n, head, step, [a, b]] = pair.real, pair.imag
    return result


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("turned", [0, 4, 8])
@pytest.mark.parametrize("by_position", [False, True])
def test_rotary_embedding(
    run_op: Run, rng: np.random.Generator, by_position: bool, turned: int, interleaved: bool
) -> None:
    x = rng.standard_normal((2, 3, 5, 8), np.float32)
    half = (turned or 8) // 2
    params = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    if by_position:
        table = rng.uniform(-3, 3, (7, half))
        positions = rng.integers(0, 7, (2, 5)).astype(np.int32)
        angles = table[positions]
        rest = [np.cos(table).astype(np.float32), np.sin(table).astype(np.float32), positions]
    else:
        angles = rng.uniform(-3, 3, (2, 5, half))
        rest = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    y = run_op("RotaryEmbedding", x, *rest, **params)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, rotated(x, angles, 2 * half, interleaved), **TOLERANCE)
    if turned == 4:
        np.testing.assert_array_equal(y[..., 4:], x[..., 4:])


def test_rotary_embedding_is_by_halves_and_whole_by_default(
    run_op: Run, rng: np.random.Generator
) -> None:
    x, angles = rng.standard_normal((1, 2, 3, 6), np.float32), rng.uniform(-3, 3, (1, 3, 3))
    y = run_op(
        "RotaryEmbedding", x, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    )
    np.testing.assert_allclose(y, rotated(x, angles, 6, False), **TOLERANCE)


def test_a_position_outside_the_table(run_op: Run) -> None:
    x, table = np.zeros((1, 1, 2, 4), np.float32), np.zeros((3, 2), np.float32)
    for position in (3, -1, 2**32, 2**64 - 1):
        kind = np.uint64 if position > 2**63 else np.int64
        positions = np.array([[0, position]], kind)
        with pytest.raises(OpError, match=f"position {position} in .* out of range of the 3"):
            run_op("RotaryEmbedding", x, table, table, positions)


def test_positions_of_any_integer_type(run_op: Run, rng: np.random.Generator) -> None:
    x, table = rng.random((1, 1, 2, 4), np.float32), rng.random((3, 2), np.float32)
    narrow, wide = (
        run_op("RotaryEmbedding", x, table, table, np.array([[2, 0]], kind))
        for kind in (np.int32, np.uint64)
    )
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("shape", [(1,), (8,), (3, 4), (2, 0, 3, 16), (64,)])
@pytest.mark.parametrize("scale", [None, 2.5])
def test_hadamard(
    run_op: Run, rng: np.random.Generator, shape: tuple[int, ...], scale: float | None
) -> None:
    x = rng.standard_normal(shape, np.float32)
    n = shape[-1]
    matrix = np.array([[(-1) ** (j & k).bit_count() for j in range(n)] for k in range(n)])
    wanted = x @ matrix.T.astype(np.float64) / math.sqrt(n) * (1 if scale is None else scale)
    y = run_op("HadamardTransform", x, scale=scale)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, wanted, **TOLERANCE)


def test_hadamard_undoes_itself(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 32))
    y = run_op("HadamardTransform", run_op("HadamardTransform", x))
    np.testing.assert_allclose(y, x, atol=1e-12)


def spectrum(signal: Array, window: Array | None, step: int, length: int, bins: int) -> Array:
    """Sum up each bin of each frame."""
    starts = range(0, signal.shape[1] - length + 1, step)
    result = np.zeros((len(signal), len(starts), bins, 2))
    for n, frame, k in np.ndindex(result.shape[:3]):
        total = 0j
        for j in range(length):
            value = signal[n, starts[frame] + j]
            number = complex(value[0], value[1] if len(value) == 2 else 0)
            weight = 1.0 if window is None else float(window[j])
            total += number * weight * cmath.exp(-2j * math.pi * j * k / length)
        result[n, frame, k] = total.real, total.imag
    return result


@pytest.mark.parametrize(("step", "length"), [(3, 8), (8, 8), (5, 7), (20, 1), (1, 20)])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("form", ["onesided", "whole", "complex"])
def test_stft(
    run_op: Run, rng: np.random.Generator, form: str, windowed: bool, step: int, length: int
) -> None:
    signal = rng.standard_normal((2, 20, 2 if form == "complex" else 1), np.float32)
    window = rng.uniform(0, 1, length).astype(np.float32) if windowed else None
    params = {"frame_step": step, "frame_length": length}
    if form != "onesided":  # which is the default
        params["onesided"] = False
    y = run_op("Stft", signal, window, **params)
    bins = length // 2 + 1 if form == "onesided" else length
    wanted = spectrum(signal, window, step, length, bins)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, wanted, **TOLERANCE, strict=False)
    assert y.shape == wanted.shape


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_stft_of_other_floats(
    run_op: Run, rng: np.random.Generator, dtype: type[np.generic]
) -> None:
    signal = rng.uniform(-1, 1, (1, 9, 1)).astype(dtype)
    y = run_op("Stft", signal, frame_step=2, frame_length=4)
    assert y.dtype == dtype
    tolerance = 1e-12 if dtype is np.float64 else 4e-3  # sums up to 4, whose float16 step that is
    np.testing.assert_allclose(y, spectrum(signal, None, 2, 4, 3), atol=tolerance)


def test_stft_of_no_signals(run_op: Run) -> None:
    y = run_op("Stft", np.zeros((0, 9, 1), np.float32), frame_step=2, frame_length=4)
    assert y.shape == (0, 3, 3, 2)


F = np.float32
FRAMES = {"frame_step": 2, "frame_length": 4}


@pytest.mark.parametrize(
    ("name", "ins", "params", "said"),
    [
        ("RotaryEmbedding", [(2, 3, 4), (2, 3, 2), (2, 3, 2)], {}, "must have rank 4"),
        ("RotaryEmbedding", [(2, 1, 3, 4), (2, 3, 3), (2, 3, 2)], {}, "the cosines in[1]"),
        ("RotaryEmbedding", [(2, 1, 3, 4), (2, 3, 2), (3, 2)], {}, "the sines in[2] must have"),
        ("RotaryEmbedding", [(2, 1, 3, 5), (2, 3, 2), (2, 3, 2)], {}, "5 of the 5 elements"),
        (
            "RotaryEmbedding",
            [(2, 1, 3, 4), (2, 3, 2), (2, 3, 2)],
            {"rotary_embedding_dim": 6},
            "6 of the 4 elements",
        ),
        (
            "RotaryEmbedding",
            [(2, 1, 3, 4), (9, 2), (9, 2), (2, 3)],
            {},
            "in[3] is FLOAT_32; it must be an integer type",
        ),
        ("HadamardTransform", [(2, 12)], {}, "must be a power of 2"),
        ("HadamardTransform", [()], {}, "must be a power of 2"),
        ("HadamardTransform", [(2, 0)], {}, "must be a power of 2"),
        ("Stft", [(2, 9)], FRAMES, "must have rank 3"),
        ("Stft", [(2, 9, 3)], FRAMES, "must be 1 or 2: real or complex"),
        ("Stft", [(2, 9, 2)], FRAMES, "is complex; onesided must be false"),
        ("Stft", [(2, 3, 1)], FRAMES, "a frame of 4 is longer than in[0] (2, 3, 1)"),
        ("Stft", [(2, 9, 1), (5,)], FRAMES, "the window in[1] must have shape (4,)"),
        ("Stft", [(2, 9, 1)], {"frame_step": 0, "frame_length": 4}, "frame_step is 0"),
    ],
)
def test_refusals(
    run_op: Run, name: str, ins: list[tuple[int, ...]], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, *(np.zeros(shape, F) for shape in ins), **params)
    assert said in str(caught.value)


def test_whole_numbers_are_not_transformed(run_op: Run) -> None:
    for name, shape, params in (("HadamardTransform", (4,), {}), ("Stft", (1, 9, 1), FRAMES)):
        with pytest.raises(OpError, match="INT_32; it must be a float or fixed-point type"):
            run_op(name, np.zeros(shape, np.int32), **params)
