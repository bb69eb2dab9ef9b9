"""Cases of activations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microsoft_cases._case import F32, Case, Known, case


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(1)
    x, bias = rng.normal(0, 2, (2, 3, 5)).astype(F32), rng.normal(size=5).astype(F32)
    yield case("Gelu", "three axes", [x])
    yield case("Gelu", "empty", [x[:0]])
    yield case("BiasGelu", "a bias that is known", [x, Known(bias)])
    yield case("BiasGelu", "a bias that is fed", [x, bias])
    yield case("FastGelu", "no bias", [x])
    yield case("FastGelu", "one axis", [bias])
    yield case("FastGelu", "a bias that is known", [x, Known(bias)])
    yield case("QuickGelu", "the default alpha", [x])
    yield case("QuickGelu", "SiLU", [x], alpha=1.0)
    yield case("QuickGelu", "a negative alpha", [x], alpha=-0.7)
