"""The error of the outputs of a quantized network."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array

# Of outputs without any error.
MOST_DB = 200.0


class OutputError:
    """The error of one output over several samples.

    Elements that are not finite in the float network do not count.
    """

    def __init__(self) -> None:
        self._signal = self._error = 0.0

    def add(self, exact: Array, near: Array) -> None:
        """Add real values of the output: of the float network, and of the quantized one."""
        counts = np.isfinite(exact)
        values = exact[counts]
        self._signal += float(np.square(values, dtype=np.float64).sum())
        difference = np.subtract(near[counts], values, dtype=np.float64)
        self._error += float(np.square(difference).sum())

    def share(self) -> float:
        """Return the power of the error as a share of the output's power."""
        if not math.isfinite(self._error):
            return math.inf
        if not self._error:
            return 0.0
        return self._error / self._signal if self._signal else 1.0


def decibels(share: float) -> float:
    """Return the signal-to-noise ratio of an error's share, from -200 to 200 dB."""
    if share <= 0:
        return MOST_DB
    if share == math.inf:
        return -MOST_DB
    return float(np.clip(-10 * math.log10(share), -MOST_DB, MOST_DB))
