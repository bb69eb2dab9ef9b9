"""Which weights to round up, by gradient descent on a rectified sigmoid, in NumPy.

A weight is `low + step * h(v)`, where h is a sigmoid stretched to -0.1 .. 1.1 and cut off at 0 and
1. The error of a layer's results pulls at v; so does, after a warm start, a regularizer that drives
h to 0 or 1, sooner for those near either at first, later for all.
Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.algorithms.adaround_problem import Problem, Schedule

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

# The sigmoid goes from -0.1 to 1.1: so much more than from 0 to 1.
_STRETCH = 1.2
_LEAST, _MOST = np.float32(-1), np.float32(1)
# With it the regularizer decides what the error leaves open; 10 to 1000 do as well.
_CURVATURE = np.float32(100)
_CHUNK = 1 << 14  # weights that are moved at a time
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's, as everybody has them


class Descent:
    """The descent of one problem.

    In place of h it has each weight's side, 2h - 1. With half of v for v, that is 1.2 tanh(v), cut
    off at -1 and 1. A weight is the middle of its step and half a step times its side.
    """

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self._problem = problem
        self._schedule = schedule
        self._target = np.clip(problem.target, *problem.cut) if problem.is_cut else problem.target
        self._pull = np.float32(2) / _unit(problem)
        # flat, so that they can be taken in pieces
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
        """Return which weights are nearer to being rounded up by now."""
        return np.asarray(self._side >= 0).reshape(self._problem.low.shape)

    def step(self, iteration: int) -> None:
        """Go one step down."""
        self._of_error(iteration)
        beta = self._schedule.beta(iteration)
        # in pieces that stay in a processor's cache
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
        """Find the gradient by the weights of the mean square error of a batch, in its unit."""
        problem = self._problem
        shape = problem.low.shape
        count = problem.rows.shape[1]
        size = min(self._schedule.batch, count)
        # rows are in no order, so that batches are taken as they lie
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
        """Move v down a gradient by the sides, which become what they were: Adam's step."""
        gradient, side = self._gradient[piece], self._side[piece]
        mean, square = self._mean[piece], self._square[piece]
        some, _ = scratch
        # the slope of the sides but for its scale, which Adam takes out; 0 where they are cut off
        np.multiply(side, side, out=some)
        np.subtract(_MOST, some, out=some)
        gradient *= some
        # both are sums, not means, of which the scale is in the rate
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
        some *= np.float32(self._schedule.rate / 2 * of_mean / of_root)  # v is half of what it was
        self._v[piece] -= some


def _regularize(
    gradient: Floats, side: Floats, beta: float, weight: float, scratch: Floats
) -> None:
    """Take from a gradient how fast 1 - |side| ** beta falls as h grows, weighted."""
    power, _ = scratch
    np.abs(side, out=power)
    np.power(power, np.float32(beta - 1), out=power)
    np.copysign(power, side, out=power)
    power *= np.float32(beta * weight)
    gradient -= power


def _unit(problem: Problem) -> Floats:
    """What errors of each output channel are measured in, (groups, 1, n).

    It is the mean square of what one weight's step changes, so that the regularizer weighs as much
    in every layer and channel, whatever their scales are.
    """
    power = np.square(problem.rows).mean(axis=(1, 2))
    steps = np.square(problem.step).mean(axis=1)
    unit = power[:, None] * steps * _CURVATURE
    return np.asarray(np.maximum(unit, np.finfo(np.float32).tiny)[:, None, :])


def _flat(values: Floats) -> Floats:
    return np.array(values, np.float32).reshape(-1)
