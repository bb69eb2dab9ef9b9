"""A learning problem, a product of rows and weights, and a schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Problem:
    """The weights of a layer as (groups, k, n), and the rows that they multiply.

    Attributes:
        low: The weights rounded down.
        step: The difference of rounding up; 0 at the end of the grid.
        fraction: The position of the weight between both, 0 to 1.
        nearest: Which weights are rounded up by rounding to nearest.
        rows: The rows in the quantized network, (groups, m, k).
        target: The outputs of the float network, before clipping, (groups, m, n).
        bias: (groups, 1, n).
        cut: Bounds of a following clip.
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
        """Return the errors of the outputs, (groups, m, n), before clipping."""
        made = self.rows @ (self.low + self.step * up)
        made += self.bias
        made -= self.target
        return np.asarray(made, np.float32)

    def errors(self, up: Bools) -> NDArray[np.float64]:
        """Return the sum of squared errors of each output channel, (groups, n)."""
        off = self.off_by(up)
        if self.is_cut:
            off += self.target
            np.clip(off, *self.cut, out=off)
            off -= np.clip(self.target, *self.cut)
        return np.asarray(np.einsum("gmn,gmn->gn", off, off, dtype=np.float64))

    @property
    def is_cut(self) -> bool:
        """True if a clip follows the layer."""
        return self.cut != (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of learning.

    Attributes:
        iterations: Steps of the descent.
        batch: Rows per step.
        rate: Adam's learning rate.
        regularization: Weight of the regularizer.
        warm_start: Share of the iterations without the regularizer.
        first_beta, last_beta: Its exponent after the warm start and at the end.
    """

    iterations: int
    batch: int
    rate: float
    regularization: float
    warm_start: float
    first_beta: float
    last_beta: float

    def beta(self, iteration: int) -> float | None:
        """Return the exponent at an iteration, None during the warm start."""
        start = self.warm_start * self.iterations
        if iteration < start:
            return None
        passed = (iteration - start) / max(self.iterations - start, 1)
        fall = 0.5 * (1 + math.cos(math.pi * passed))
        return self.last_beta + (self.first_beta - self.last_beta) * fall
