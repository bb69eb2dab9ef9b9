"""Sliding windows for expected outputs: one position after the other, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array

Ints = Sequence[int]
Pairs = Sequence[Sequence[int]]


def patches(x: Array, size: Ints, stride: Ints, pads: Pairs, dilation: Ints = ()) -> Array:
    """Return the windows of (n, *spatial, c) padded with zeros: (n, *positions, *size, c)."""
    dilation = dilation or [1] * len(size)
    padded = np.pad(x.astype(np.float64), [(0, 0), *[(p[0], p[1]) for p in pads], (0, 0)])
    spans = [(f - 1) * d + 1 for f, d in zip(size, dilation, strict=True)]
    counts = [
        (n - span) // s + 1 for n, span, s in zip(padded.shape[1:-1], spans, stride, strict=True)
    ]
    made = np.zeros((x.shape[0], *counts, *size, x.shape[-1]))
    for at in np.ndindex(*counts):
        index = (
            slice(a * s, a * s + span, d)
            for a, s, span, d in zip(at, stride, spans, dilation, strict=True)
        )
        made[(slice(None), *at)] = padded[(slice(None), *index)]
    return made


def convolved(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    pads: Pairs,
    dilation: Ints = (),
    group: int = 1,
) -> Array:
    """Return the cross-correlation of (n, *spatial, c) with (*size, c / group, k)."""
    size = weight.shape[:-2]
    seen = patches(x, size, stride, pads, dilation)
    taken, made = weight.shape[-2], weight.shape[-1] // group
    axes = list(range(-len(size) - 1, 0)), list(range(len(size) + 1))
    parts = [
        np.tensordot(
            seen[..., g * taken : (g + 1) * taken],
            weight[..., g * made : (g + 1) * made].astype(np.float64),
            axes,
        )
        for g in range(group)
    ]
    result = np.concatenate(parts, -1)
    return result if bias is None else result + bias


def spread(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    pads: Pairs,
    dilation: Ints = (),
    group: int = 1,
    extra: Ints = (),
) -> Array:
    """Return the transposed convolution: every input element adds its window to the output."""
    size, taken, made = weight.shape[:-2], weight.shape[-2] // group, weight.shape[-1]
    dilation, extra = dilation or [1] * len(size), extra or [0] * len(size)
    spans = [(f - 1) * d + 1 for f, d in zip(size, dilation, strict=True)]
    whole = [
        s * (n - 1) + span + e
        for n, s, span, e in zip(x.shape[1:-1], stride, spans, extra, strict=True)
    ]
    result = np.zeros((x.shape[0], *whole, made * group))
    for at in np.ndindex(*x.shape[1:-1]):
        for tap in np.ndindex(*size):
            to = (a * s + t * d for a, s, t, d in zip(at, stride, tap, dilation, strict=True))
            index = (slice(None), *to)
            for g in range(group):
                of, into = slice(g * taken, (g + 1) * taken), slice(g * made, (g + 1) * made)
                seen = x[(slice(None), *at)][:, of].astype(np.float64)
                result[index][:, into] += seen @ weight[tap][of]
    kept = (slice(p[0], n - p[1]) for p, n in zip(pads, whole, strict=True))
    result = result[(slice(None), *kept)]
    return result if bias is None else result + bias


def pooled(x: Array, size: Ints, stride: Ints, pads: Pairs, *, ceil: bool = False) -> Array:
    """Return the windows of a pooling, NaN beyond the padding: (n, *positions, m, c).

    The padding itself is infinite, to distinguish it from the area beyond.
    """
    padded = np.pad(
        x.astype(np.float64),
        [(0, 0), *[(p[0], p[1]) for p in pads], (0, 0)],
        constant_values=np.inf,
    )
    step = -1 if ceil else 1
    counts = [
        step * ((n - f) * step // s) + 1
        for n, f, s in zip(padded.shape[1:-1], size, stride, strict=True)
    ]
    beyond = [(0, 0), *[(0, s + f) for s, f in zip(stride, size, strict=True)], (0, 0)]
    wide = np.pad(padded, beyond, constant_values=np.nan)
    made = np.zeros((x.shape[0], *counts, int(np.prod(size)), x.shape[-1]))
    for at in np.ndindex(*counts):
        index = (slice(a * s, a * s + f) for a, s, f in zip(at, stride, size, strict=True))
        window = wide[(slice(None), *index)]
        made[(slice(None), *at)] = window.reshape(x.shape[0], made.shape[-2], x.shape[-1])
    return made
