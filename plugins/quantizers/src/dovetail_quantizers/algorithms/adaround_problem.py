"""What is to be learned of a layer, and how: a product of rows and weights, and a schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Problem:
    """The weights of a layer as (groups, k, n), and rows that they are multiplied with.

    Attributes:
        low: The weight rounded down.
        step: What rounding up adds; 0 where the grid ends.
        fraction: Where between the two the weight is, 0 to 1.
        nearest: Which weights rounding to nearest rounds up.
        rows: What the quantized network multiplies with them, (groups, m, k).
        target: The float network's results, before they are cut off, (groups, m, n).
        bias: (groups, 1, n).
        cut: Ends at which what follows the layer cuts its results off.
    """

    low: Floats
    step: Floats
    fraction: Floats
    nearest: Bools
    rows: Floats
    target: Floats
    bias: Floats
    cut: tuple[float, float] = (-math.inf, math.inf)

    def off_by(self, up: Bools) -> Floats:
        """Return what is added to the results, (groups, m, n), before they are cut off."""
        made = self.rows @ (self.low + self.step * up)
        made += self.bias
        made -= self.target
        return np.asarray(made, np.float32)

    def errors(self, up: Bools) -> NDArray[np.float64]:
        """Return the sum of squares that is left of each output channel, (groups, n)."""
        off = self.off_by(up)
        if self.is_cut:
            off += self.target
            np.clip(off, *self.cut, out=off)
            off -= np.clip(self.target, *self.cut)
        return np.asarray(np.einsum("gmn,gmn->gn", off, off, dtype=np.float64))

    @property
    def is_cut(self) -> bool:
        """Whether anything follows the layer that cuts its results off."""
        return self.cut != (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to learn.

    Attributes:
        iterations: Steps of the descent.
        batch: Rows of each.
        rate: Adam's learning rate.
        regularization: Weight of the regularizer.
        warm_start: Share of the iterations without it.
        first_beta, last_beta: Its exponent, from the warm start to the end.
    """

    iterations: int
    batch: int
    rate: float
    regularization: float
    warm_start: float
    first_beta: float
    last_beta: float

    def beta(self, iteration: int) -> float | None:
        """Return the exponent at an iteration, None in the warm start."""
        start = self.warm_start * self.iterations
        if iteration < start:
            return None
        passed = (iteration - start) / max(self.iterations - start, 1)
        fall = 0.5 * (1 + math.cos(math.pi * passed))
        return self.last_beta + (self.first_beta - self.last_beta) * fall
