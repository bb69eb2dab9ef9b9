"""Which weights to round up, by gradient descent on a rectified sigmoid, in NumPy.

A weight is `low + step * h(v)`, where h is a sigmoid stretched to -0.1 .. 1.1 and clipped at 0 and
1. The loss is the error of the layer's output plus, after a warm start, a regularizer that drives h
to 0 or 1: at first those near either, later all.
Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.algorithms.adaround_problem import Problem, Schedule

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

# The length of -0.1 .. 1.1.
_STRETCH = 1.2
_LEAST, _MOST = np.float32(-1), np.float32(1)
# Scale of the error relative to the regularizer; 10 to 1000 work equally well.
_CURVATURE = np.float32(100)
_CHUNK = 1 << 14  # weights per piece
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's usual constants


class Descent:
    """The descent of one problem.

    It stores 2h - 1, the side of each weight, instead of h, and half of v as v: the side is
    1.2 tanh(v), clipped at -1 and 1. A weight is the middle of its step plus half a step times its
    side.
    """

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self._problem = problem
        self._schedule = schedule
        self._target = np.clip(problem.target, *problem.cut) if problem.is_cut else problem.target
        self._pull = np.float32(2) / _unit(problem)
        # flat, to be processed in pieces
        self._half = _flat(problem.step) * np.float32(0.5)
        self._middle = _flat(problem.low) + self._half
        self._side = 2 * _flat(problem.fraction) - np.float32(1)
        self._v = np.arctanh(self._side / np.float32(_STRETCH))
        self._mean = np.zeros_like(self._v)
        self._square = np.zeros_like(self._v)
        self._weight = self._middle + self._half * self._side
        self._gradient = np.empty_like(self._v)
        self._scratch = np.empty((2, min(_CHUNK, self._v.size)), np.float32)

    def rounded_up(self) -> Bools:
        """Return which weights are currently rounded up."""
        return np.asarray(self._side >= 0).reshape(self._problem.low.shape)

    def step(self, iteration: int) -> None:
        """Do one step of the descent."""
        self._of_error(iteration)
        beta = self._schedule.beta(iteration)
        # in pieces that fit a core's cache
        for first in range(0, self._v.size, _CHUNK):
            piece = slice(first, first + _CHUNK)
            gradient, side, half = self._gradient[piece], self._side[piece], self._half[piece]
            scratch = self._scratch[:, : side.size]
            gradient *= half
            if beta is not None:
                _regularize(gradient, side, beta, self._schedule.regularization, scratch)
            self._descend(piece, iteration + 1, scratch)
            np.tanh(self._v[piece], out=side)
            side *= np.float32(_STRETCH)
            np.clip(side, _LEAST, _MOST, out=side)
            weight = self._weight[piece]
            np.multiply(half, side, out=weight)
            weight += self._middle[piece]

    def _of_error(self, iteration: int) -> None:
        """Compute the gradient of the mean squared error of a batch, in the unit of errors."""
        problem = self._problem
        shape = problem.low.shape
        count = problem.rows.shape[1]
        size = min(self._schedule.batch, count)
        # rows are in random order, so batches are consecutive
        first = iteration % max(count // size, 1) * size
        batch = slice(first, first + size)
        rows = problem.rows[:, batch]
        error = rows @ self._weight.reshape(shape)
        error += problem.bias
        if problem.is_cut:
            low, high = problem.cut
            inside = (error > low) & (error < high)
            np.clip(error, low, high, out=error)
            error -= self._target[:, batch]
            error *= inside
        else:
            error -= self._target[:, batch]
        error *= self._pull / np.float32(size)
        np.matmul(rows.swapaxes(1, 2), error, out=self._gradient.reshape(shape))

    def _descend(self, piece: slice, count: int, scratch: Floats) -> None:
        """Update v with Adam, from the gradient by the sides."""
        gradient, side = self._gradient[piece], self._side[piece]
        mean, square = self._mean[piece], self._square[piece]
        some, _ = scratch
        # the slope of the sides up to its scale, which Adam removes; 0 where they are clipped
        np.multiply(side, side, out=some)
        np.subtract(_MOST, some, out=some)
        gradient *= some
        # both are sums instead of means; the rate includes their scale
        mean *= np.float32(_BETA_1)
        mean += gradient
        square *= np.float32(_BETA_2)
        gradient *= gradient
        square += gradient
        np.sqrt(square, out=some)
        some += np.float32(_EPSILON)
        np.divide(mean, some, out=some)
        of_mean = (1 - _BETA_1) / (1 - _BETA_1**count)
        of_root = math.sqrt((1 - _BETA_2) / (1 - _BETA_2**count))
        some *= np.float32(self._schedule.rate / 2 * of_mean / of_root)  # v is stored as a half
        self._v[piece] -= some


def _regularize(
    gradient: Floats, side: Floats, beta: float, weight: float, scratch: Floats
) -> None:
    """Add the gradient of the regularizer 1 - |side| ** beta, weighted."""
    power, _ = scratch
    np.abs(side, out=power)
    np.power(power, np.float32(beta - 1), out=power)
    np.copysign(power, side, out=power)
    power *= np.float32(beta * weight)
    gradient -= power


def _unit(problem: Problem) -> Floats:
    """Return the unit of squared errors of each output channel, (groups, 1, n).

    It is the mean square of the effect of one weight's step, so the regularizer has the same weight
    in every layer and channel, whatever their scales are.
    """
    power = np.square(problem.rows).mean(axis=(1, 2))
    steps = np.square(problem.step).mean(axis=1)
    unit = power[:, None] * steps * _CURVATURE
    return np.asarray(np.maximum(unit, np.finfo(np.float32).tiny)[:, None, :])


def _flat(values: Floats) -> Floats:
    return np.array(values, np.float32).reshape(-1)
