"""Cases of transforms of vectors and signals."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real

_VECTORS = real(2, 2, 3, 8)
_ANGLES = real(2, 3, 4, seed=3)
_SIGNAL = real(2, 20, 1)


def _turned(x: Array, cos: Array, sin: Array, pairs: list[tuple[int, int]]) -> Array:
    """Return each pair of elements rotated by its angle, as a complex number."""
    made = x.astype(np.float64)
    for i, (a, b) in enumerate(pairs):
        rotation = (cos[..., i] + 1j * sin[..., i])[:, None]
        result = (x[..., a] + 1j * x[..., b]) * rotation
        made[..., a], made[..., b] = result.real, result.imag
    return made


def _walsh(x: Array, scale: float) -> Array:
    n = x.shape[-1]
    signs = np.array([[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(n)])
    return np.asarray(x.astype(np.float64) @ signs * scale / n**0.5)


def _spectrum(x: Array, window: Array, step: int, bins: int) -> Array:
    """Return sums of products with roots of unity, frame by frame."""
    length = len(window)
    frames = (x.shape[1] - length) // step + 1
    made = np.zeros((x.shape[0], frames, bins, 2))
    for f in range(frames):
        part = x[:, f * step : f * step + length, 0] * window
        for k in range(bins):
            angle = 2 * np.pi * k * np.arange(length) / length
            made[:, f, k] = np.stack([part @ np.cos(angle), -part @ np.sin(angle)], -1)
    return made


CASES: tuple[OpCase, ...] = (
    OpCase(
        "RotaryEmbedding",
        (_VECTORS, np.cos(_ANGLES), np.sin(_ANGLES)),
        lambda x, c, s: _turned(x, c, s, [(i, i + 4) for i in range(4)]),
    ),
    OpCase(
        "RotaryEmbedding",
        (_VECTORS, np.cos(_ANGLES), np.sin(_ANGLES)),
        lambda x, c, s: _turned(x, c, s, [(2 * i, 2 * i + 1) for i in range(4)]),
        {"interleaved": True},
        name="interleaved",
    ),
    OpCase(
        "RotaryEmbedding",
        (
            _VECTORS,
            np.cos(real(5, 2)),
            np.sin(real(5, 2)),
            np.array([[4, 0, 2], [1, 1, 3]], np.int32),
        ),
        lambda x, c, s, i: _turned(x, c[i], s[i], [(0, 2), (1, 3)]),
        {"rotary_embedding_dim": 4},
        name="positions, four elements",
    ),
    OpCase("HadamardTransform", (real(3, 8),), lambda x: _walsh(x, 1.0)),
    OpCase(
        "HadamardTransform",
        (real(2, 3, 4),),
        lambda x: _walsh(x, 0.5),
        {"scale": 0.5},
        name="scale",
    ),
    OpCase(
        "Stft",
        (_SIGNAL, real(8, low=0.1, seed=2)),
        lambda x, w: _spectrum(x, w, 4, 5),
        {"frame_step": 4, "frame_length": 8, "onesided": True},
        atol=1e-5,
    ),
    OpCase(
        "Stft",
        (_SIGNAL,),
        lambda x: _spectrum(x, np.ones(6), 5, 6),
        {"frame_step": 5, "frame_length": 6, "onesided": False},
        name="all bins, no window",
        atol=1e-5,
    ),
)
