"""Learning which weights to round up: gradient descent on a rectified sigmoid, in NumPy.

A weight is `low + step * h(v)`, where h is a sigmoid stretched to -0.1 .. 1.1 and cut off at 0 and
1. The error of a layer's results pulls at v; so does, after a warm start, a regularizer that drives
h to 0 or 1, sooner for those near either at first, later for all.
Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_ZETA, _GAMMA = 1.1, -0.1
_STRETCH = _ZETA - _GAMMA
# With it the regularizer decides what the error leaves open; 10 to 1000 do as well.
_CURVATURE = np.float32(100)
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's, as everybody has them


@dataclass(frozen=True, slots=True)
class Problem:
    """The weights of a layer as (groups, k, n), and rows that they are multiplied with.

    Attributes:
        low: The weight rounded down.
        step: What rounding up adds; 0 where the grid ends.
        fraction: Where between the two the weight is, 0 to 1.
        nearest: Which weights rounding to nearest rounds up.
        rows: What the quantized network multiplies with them, (groups, m, k).
        target: The float network's results, cut off like the layer's, (groups, m, n).
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

    def errors(self, up: Bools) -> NDArray[np.float64]:
        """Gives the sum of squares that is left of each output channel, (groups, n)."""
        made = self.rows @ (self.low + self.step * up) + self.bias
        if self.is_cut:
            made = np.clip(made, *self.cut)
        return np.asarray(np.square(made - self.target, dtype=np.float64).sum(axis=1))

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
        """Gives the exponent at an iteration, None in the warm start."""
        start = self.warm_start * self.iterations
        if iteration < start:
            return None
        passed = (iteration - start) / max(self.iterations - start, 1)
        fall = 0.5 * (1 + math.cos(math.pi * passed))
        return self.last_beta + (self.first_beta - self.last_beta) * fall


def learn(problem: Problem, schedule: Schedule) -> Bools:
    """Gives which weights to round up, (groups, k, n).

    No output channel comes out worse on the rows than rounding to nearest leaves it.
    """
    descent = _Descent(problem, schedule)
    for iteration in range(schedule.iterations):
        descent.step(iteration)
    learned = descent.gate() >= 0.5
    better = problem.errors(learned) < problem.errors(problem.nearest)
    return np.where(better[:, None, :], learned, problem.nearest)


class _Descent:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self._problem = problem
        self._schedule = schedule
        self._base = problem.rows @ problem.low + problem.bias
        self._unit = _unit(problem)
        start = (problem.fraction - _GAMMA) / _STRETCH
        self._v = np.log(start / (1 - start)).astype(np.float32)
        self._mean = np.zeros_like(self._v)
        self._square = np.zeros_like(self._v)

    def gate(self) -> Floats:
        """Gives h of every weight."""
        return _rectified(_sigmoid(self._v))

    def step(self, iteration: int) -> None:
        """Goes one step down."""
        slope = _sigmoid(self._v)
        gate = _rectified(slope)
        gradient = self._of_error(iteration, gate)
        beta = self._schedule.beta(iteration)
        if beta is not None:
            gradient -= self._of_regularizer(gate, beta)
        slope *= 1 - slope
        slope *= (gate > 0) & (gate < 1)
        gradient *= slope
        gradient *= np.float32(_STRETCH)
        self._descend(gradient, iteration + 1)

    def _of_error(self, iteration: int, gate: Floats) -> Floats:
        """The gradient by h of the mean square error of a batch of rows, in its unit."""
        problem = self._problem
        count = problem.rows.shape[1]
        size = min(self._schedule.batch, count)
        # rows are in no order, so that batches are taken as they lie
        first = iteration % max(count // size, 1) * size
        batch = slice(first, first + size)
        rows = problem.rows[:, batch]
        made = rows @ (problem.step * gate)
        made += self._base[:, batch]
        if problem.is_cut:
            low, high = problem.cut
            inside = (made > low) & (made < high)
            error = (np.clip(made, low, high) - problem.target[:, batch]) * inside
        else:
            error = made - problem.target[:, batch]
        gradient = rows.swapaxes(1, 2) @ error
        gradient *= problem.step * (np.float32(2 / size) / self._unit)
        return np.asarray(gradient, np.float32)

    def _of_regularizer(self, gate: Floats, beta: float) -> Floats:
        """How fast 1 - |2h - 1| ** beta falls as h grows, weighted."""
        away = 2 * gate - 1
        power = np.abs(away) ** np.float32(beta - 1)
        return np.copysign(power, away) * np.float32(2 * beta * self._schedule.regularization)

    def _descend(self, gradient: Floats, count: int) -> None:
        self._mean *= np.float32(_BETA_1)
        self._mean += np.float32(1 - _BETA_1) * gradient
        self._square *= np.float32(_BETA_2)
        gradient *= gradient
        gradient *= np.float32(1 - _BETA_2)
        self._square += gradient
        root = np.sqrt(self._square / np.float32(1 - _BETA_2**count))
        root += np.float32(_EPSILON)
        rate = self._schedule.rate / (1 - _BETA_1**count)
        self._v -= np.float32(rate) * self._mean / root


def _unit(problem: Problem) -> Floats:
    """What errors of each output channel are measured in, (groups, 1, n).

    It is the mean square of what one weight's step changes, so that the regularizer weighs as much
    in every layer and channel, whatever their scales are.
    """
    power = np.square(problem.rows).mean(axis=(1, 2))
    steps = np.square(problem.step).mean(axis=1)
    unit = power[:, None] * steps * _CURVATURE
    return np.asarray(np.maximum(unit, np.finfo(np.float32).tiny)[:, None, :])


def _rectified(sigmoid: Floats) -> Floats:
    """Gives h of a sigmoid: stretched, and cut off at 0 and 1."""
    return np.asarray(np.clip(sigmoid * np.float32(_STRETCH) + np.float32(_GAMMA), 0, 1))


def _sigmoid(v: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-v)), np.float32)
