"""The factors that equalize the ranges of channels in the layers on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail_quantizers.algorithms.cle_pairs import Pair
from dovetail_quantizers.algorithms.linear_layer import Vector

# Limit of the factors, so that no float32 overflows.
_FURTHEST = 2.0**40


def level(chain: Sequence[Pair]) -> None:
    """Equalize the magnitudes of whole layers.

    Channels then need few rounds; otherwise such a difference would move slowly from pair to pair.
    One factor t for each pair, in logarithms, makes the ranges equal on average:
    `made + t[i - 1] - t[i] = taken + t[i] - t[i + 1]`.
    """
    excess = np.zeros(len(chain))
    for i, pair in enumerate(chain):
        made, taken, both = _comparable(pair)
        if both.any():
            excess[i] = np.mean(np.log(made[both]) - np.log(taken[both]))
    bands = 2 * np.eye(len(chain)) - np.eye(len(chain), k=1) - np.eye(len(chain), k=-1)
    for pair, exponent in zip(chain, np.linalg.solve(bands, excess), strict=True):
        _divide(pair, np.full(len(pair.factors), exponent))


def equalize(pair: Pair) -> float:
    """Equalize the ranges of a pair's channels; return the largest relative change."""
    made, taken, both = _comparable(pair)
    exponents = np.zeros(len(made))
    exponents[both] = (np.log(made[both]) - np.log(taken[both])) / 2
    return float(np.abs(_divide(pair, exponents) - 1).max(initial=0))


def _comparable(
    pair: Pair,
) -> tuple[Vector, Vector, np.ndarray[tuple[int, ...], np.dtype[np.bool]]]:
    """Return the ranges on both sides, and where both are positive and finite."""
    made, taken = pair.ranges()
    return made, taken, (made > 0) & (taken > 0) & np.isfinite(made) & np.isfinite(taken)


def _divide(pair: Pair, exponents: Vector) -> Vector:
    wanted = pair.factors * np.exp(np.clip(exponents, -80, 80))
    factors = np.clip(wanted, 1 / _FURTHEST, _FURTHEST) / pair.factors
    pair.divide(factors)
    return np.asarray(factors)
