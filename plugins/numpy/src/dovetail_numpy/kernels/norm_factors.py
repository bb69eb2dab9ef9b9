"""The constant factors of norms of stored integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.integer.grid import real_of


@dataclass(frozen=True, slots=True)
class NormFactors:
    """The real values of gamma and beta, float64, flat; None where omitted."""

    gamma: Array | None
    beta: Array | None

    @classmethod
    def of(cls, call: KernelCall) -> NormFactors | None:
        """Return the factors of a call; None unless they are constant and finite."""
        found: dict[int, Array | None] = {}
        for i in (1, 2):
            stored = call.static(i)
            if call.has(i) != (stored is not None):
                return None
            found[i] = None if stored is None else real_of(stored, call.spec(i)).reshape(-1)
        are_finite = all(each is None or np.isfinite(each).all() for each in found.values())
        return cls(found[1], found[2]) if are_finite else None

    def in_steps(self, step: float, width: int) -> tuple[Array, Array]:
        """Return both in steps of the result, (width,): 1 and 0 where omitted."""
        factor = np.broadcast_to((1.0 if self.gamma is None else self.gamma) / step, (width,))
        offset = np.broadcast_to((0.0 if self.beta is None else self.beta) / step, (width,))
        return factor, offset

    def apply(self, real: NDArray[np.float64]) -> None:
        """Multiply rows by gamma and add beta, in place."""
        if self.gamma is not None:
            np.multiply(real, self.gamma, real)
        if self.beta is not None:
            np.add(real, self.beta, real)

    def applied(self, real: Array, column: NDArray[np.intp]) -> Array:
        """Return elements of these columns times gamma plus beta."""
        if self.gamma is not None:
            real = real * self.gamma[column]
        if self.beta is not None:
            real = real + self.beta[column]
        return np.asarray(real)
