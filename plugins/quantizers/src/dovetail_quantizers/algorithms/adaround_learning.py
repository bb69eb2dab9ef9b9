"""Learning which weights to round up: a gradient descent, then flips of single weights.

A weight is `low + step * h(v)`, where h is a sigmoid stretched to -0.1 .. 1.1 and clipped at 0 and
1. The loss is the error of the layer's output plus, after a warm start, a regularizer that drives h
to 0 or 1: at first those near either, later all.

Then single weights are flipped as long as the error of the layer's sums falls. It is a quadratic
form of the weights: with the products of all pairs of inputs, the effect of a flip costs almost
nothing. Learning finds combinations of weights; this finds single improvements. A following clip is
ignored here.
Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ops import UNBOUNDED, Range

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

# The length of -0.1 .. 1.1.
_STRETCH = 1.2
_LEAST, _MOST = np.float32(-1), np.float32(1)
# Scale of the error relative to the regularizer; 10 to 1000 work equally well.
_CURVATURE = np.float32(100)
_CHUNK = 1 << 14  # weights per piece
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's usual constants

_SWEEPS = 8
# Stop after a round that flips a smaller share of the weights.
_SETTLED = 1e-3
# Inputs per block of pairs: 64 MiB of products.
_SPAN = 4096
# Inputs after which the slopes of all inputs are updated, in one matrix product.
_BLOCK = 64


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
    cut: Range = UNBOUNDED

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
        return self.cut != UNBOUNDED


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


def polished(rows: Floats, error: Floats, step: Floats, up: Bools) -> Bools:
    """Return which weights to round up, without a larger error of any channel.

    Args:
        rows: The rows that weights multiply, (groups, m, k).
        error: The errors of the sums, (groups, m, n).
        step: The steps of the weights, (groups, k, n).
        up: Which weights are rounded up now.
    """
    change = np.where(up, -step, step)
    before = change.copy()
    for span in _pieces(step.shape[1], _SPAN):
        some = rows[:, :, span]
        pairs = some.swapaxes(1, 2) @ some
        slope = some.swapaxes(1, 2) @ error
        for _ in range(_SWEEPS):
            if _sweep(pairs, slope, change[:, span]) < _SETTLED * up.size:
                break
        if span.stop < step.shape[1]:
            error = error + some @ _moved(before[:, span], change[:, span])
    return np.asarray(up ^ (before != change))


def _sweep(pairs: Floats, slope: Floats, change: Floats) -> int:
    """Flip weights that lower the error, input by input; return the number of flips.

    Args:
        pairs: Sums of products of pairs of inputs, (groups, k, k).
        slope: Sums of products of inputs and errors, (groups, k, n); updated.
        change: The change of each weight by a flip; updated.
    """
    count = 0
    for block in _pieces(change.shape[1], _BLOCK):
        inner = pairs[:, block, block]
        near = slope[:, block].copy()
        old = change[:, block].copy()
        new = change[:, block]
        for i in range(new.shape[1]):
            power = inner[:, i, i, None]
            flipped = new[:, i] * (2 * near[:, i] + new[:, i] * power) < 0
            if flipped.any():
                moved = new[:, i] * flipped
                near += inner[:, :, i, None] * moved[:, None]
                new[:, i] -= 2 * moved
                count += int(np.count_nonzero(flipped))
        slope += pairs[:, :, block] @ _moved(old, new)
    return count


def _moved(old: Floats, new: Floats) -> Floats:
    """Return the changes of weights, from the possible flips before and after."""
    return np.where(old != new, old, np.float32(0))


def _pieces(count: int, size: int) -> Iterator[slice]:
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of learning.

    Attributes:
        up: Which weights to round up, (groups, k, n).
        before: The sum of squared errors with rounding to nearest.
        after: The sum of squared errors with `up`.
        changed: Number of weights that are not rounded to nearest.
    """

    up: Bools
    before: float
    after: float
    changed: int


def learn(problem: Problem, schedule: Schedule) -> Learned:
    """Return which weights to round up.

    No output channel has a larger error on the rows than with rounding to nearest.
    """
    descent = Descent(problem, schedule)
    for iteration in range(schedule.iterations):
        descent.step(iteration)
    rounded = descent.rounded_up()
    learned = polished(problem.rows, problem.off_by(rounded), problem.step, rounded)
    after, before = problem.errors(learned), problem.errors(problem.nearest)
    better = after < before
    return Learned(
        np.where(better[:, None], learned, problem.nearest),
        float(before.sum()),
        float(np.minimum(after, before).sum()),
        int(np.count_nonzero((learned != problem.nearest) & better[:, None])),
    )
