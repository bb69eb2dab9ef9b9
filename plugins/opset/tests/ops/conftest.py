"""Helpers of the tests of detection ops: suppression, written in loops."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

Box = Sequence[float]


def overlap_of(a: Box, b: Box) -> Fraction:
    """The intersection of two boxes over their union, exactly."""
    area, ends = [], []
    for box in (a, b):
        p, q, r, s = (Fraction(float(v)) for v in box)
        ends.append((min(p, r), min(q, s), max(p, r), max(q, s)))
        area.append(abs(r - p) * abs(s - q))
    (t, u, v, w), (x, y, z, o) = ends
    shared = max(min(v, z) - max(t, x), 0) * max(min(w, o) - max(u, y), 0)
    union = area[0] + area[1] - shared
    return shared / union if union else Fraction(0)


def suppress(
    boxes: Sequence[Box],
    scores: Sequence[float],
    least: float,
    threshold: float,
    most: int,
    *,
    touching: bool = False,
) -> list[int]:
    """Indices of the kept boxes: each candidate in turn against all kept ones."""
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if not scores[i] > least or len(kept) == most:
            continue
        overlaps = [overlap_of(boxes[i], boxes[k]) for k in kept]
        if all(v < threshold or (v == threshold and not touching) for v in overlaps):
            kept.append(i)
    return kept


@pytest.fixture(name="overlap_of", scope="session")
def fixture_overlap_of() -> Callable[..., Fraction]:
    return overlap_of


@pytest.fixture(name="suppress", scope="session")
def fixture_suppress() -> Callable[..., list[int]]:
    return suppress
