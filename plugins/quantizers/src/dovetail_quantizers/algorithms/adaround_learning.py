"""Learning which weights to round up: a gradient descent, then flips of single weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail_quantizers.algorithms.adaround_descent import Descent
from dovetail_quantizers.algorithms.adaround_polish import polished
from dovetail_quantizers.algorithms.adaround_problem import Problem, Schedule

Bools = NDArray[np.bool_]


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
