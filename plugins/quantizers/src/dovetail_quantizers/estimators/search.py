"""The search of a histogram for the range with the minimum cost, for any cost function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail_quantizers.estimators.histogram import DEFAULT_BINS, Bins, Histogram
from dovetail_quantizers.grid import Scheme, Target, grids_for, storage_type

Floats = NDArray[np.float64]

# A side is clipped to 2^-c of its length: first c in steps of 1/4, then in finer steps around the
# best one, at last on all bins.
_COARSE = np.arange(0, 12.1, 0.25)
_FINER = (1 / 8, 1 / 16)
_FINEST = 1 / 32
_AROUND = np.arange(-2.0, 3.0)
_DEEPEST_OF_NET = 8
_MOST_MOVES = 4  # per step size


class RangeSearch:
    """Base of the estimators that search a histogram for the best range of a grid.

    Args:
        bitwidth: Bits of the grid, 2 to 16.
        symmetric: Whether the grid is symmetric.
        unsigned_symmetric: Whether a symmetric grid is unsigned if no value is negative.
        bins: Of the histogram.
    """

    def __init__(
        self,
        *,
        bitwidth: int = 8,
        symmetric: bool = False,
        unsigned_symmetric: bool = False,
        bins: int = DEFAULT_BINS,
    ) -> None:
        self._target = Target(bitwidth, symmetric, unsigned_symmetric)
        self._histogram = Histogram(bins=bins)

    def observe(self, batch: Array) -> None:
        """Observe the values of one run, of any shape."""
        self._histogram.observe(batch)


@dataclass(frozen=True, slots=True)
class Grids:
    """Several grids: scales (g,); below and above: their ends in steps from zero, (g,)."""

    scales: Floats
    below: Floats
    above: Floats

    def part(self, start: int, stop: int) -> Grids:
        """Return the grids with indices from `start` to before `stop`."""
        some = slice(start, stop)
        return Grids(self.scales[some], self.below[some], self.above[some])


Cost = Callable[[Bins, Grids], Floats]


def grids_of(minimum: Floats, maximum: Floats, bitwidth: int, scheme: Scheme) -> Grids:
    """Return the grids of ranges (g,)."""
    scales, offsets = grids_for(minimum, maximum, bitwidth, scheme)
    low, high = storage_type(bitwidth, scheme).stored_range(bitwidth)
    steps = offsets.astype(np.float64)
    return Grids(scales.astype(np.float64), low + steps, high + steps)


def cheapest_range(
    bins: Bins,
    cost: Cost,
    bitwidth: int,
    scheme: Scheme,
    *,
    rough: Bins | None = None,
    deepest: float = 12.0,
) -> tuple[float, float]:
    """Return the part of a histogram's range with the minimum cost.

    The whole range is compared, too, and wins a tie.

    Args:
        bins: The values.
        cost: Returns the cost of each of several grids.
        bitwidth: Of the grids.
        scheme: Of the grids.
        rough: The same values in fewer bins, for a first search.
        deepest: Limit of clipping: to 2^-deepest of the length of a side.
    """
    search = _Search(bins if rough is None else rough, cost, bitwidth, scheme, deepest)
    best = search.coarse()
    for fineness in _FINER:
        best = search.around(best, fineness)
    if rough is not None:
        search = _Search(bins, cost, bitwidth, scheme, deepest)
    return search.range(search.around(best, _FINEST))


class _Search:
    """A search over cuts (c, d): the sides below and above zero shrink to 2^-c and 2^-d."""

    def __init__(
        self, bins: Bins, cost: Cost, bitwidth: int, scheme: Scheme, deepest: float
    ) -> None:
        self._bins, self._cost = bins, cost
        self._bitwidth, self._scheme = bitwidth, scheme
        self._deepest = deepest
        below, above = min(bins.minimum, 0.0), max(bins.maximum, 0.0)
        self._joined = scheme is Scheme.SYMMETRIC
        if self._joined:
            above = max(-below, above)
            below = -above
        self._below, self._above = below, above

    def coarse(self) -> Floats:
        """Return the best cut of a coarse net, (2,)."""
        cuts = _COARSE[self._deepest >= _COARSE]
        if self._joined or self._below == 0 or self._above == 0:
            return self._best(self._pairs(cuts))
        return self._best_of_both(cuts)

    def around(self, best: Floats, fineness: float) -> Floats:
        """Return the best cut near another, (2,); move on while that helps."""
        for _ in range(_MOST_MOVES):
            moves: Floats = _AROUND * fineness
            near = best + self._pairs(moves)
            found = self._best(np.unique(np.clip(near, 0, self._deepest), axis=0))
            moved = np.abs(found - best).max()
            best = found
            if moved < 2 * fineness:
                break
        return best

    def range(self, cut: Floats) -> tuple[float, float]:
        """Return the range of a cut (2,), no wider than the observed range."""
        below, above = self._below * 2.0 ** -cut[0], self._above * 2.0 ** -cut[1]
        minimum, maximum = np.clip([self._bins.minimum, self._bins.maximum], below, above)
        return float(minimum), float(maximum)

    def _best(self, cuts: Floats) -> Floats:
        """Return the cheapest of cuts (n, 2) and of no cut; the first one of equal ones."""
        cuts = np.concatenate([np.zeros((1, 2)), cuts])
        shrunk = 2.0**-cuts
        minimum, maximum = self._below * shrunk[:, 0], self._above * shrunk[:, 1]
        grids = grids_of(minimum, maximum, self._bitwidth, self._scheme)
        return np.asarray(cuts[int(np.argmin(self._cost(self._bins, grids)))])

    def _best_of_both(self, cuts: Floats) -> Floats:
        """Return the best pair of cuts: search a net, then alternate between both sides."""
        best = self._best(self._pairs(cuts[cuts <= _DEEPEST_OF_NET][::2]))
        for _ in range(_MOST_MOVES):
            before = best
            for side in (0, 1):
                pairs = np.tile(best, (cuts.size, 1))
                pairs[:, side] = cuts
                best = self._best(np.concatenate([best[np.newaxis], pairs]))
            if np.array_equal(before, best):
                break
        return best

    def _pairs(self, moves: Floats) -> Floats:
        """Return all pairs of moves below and above zero, (n, 2); no moves for an empty side."""
        if self._joined:
            return np.stack([moves, moves], 1)
        none = np.zeros(1)
        sides = (moves if self._below else none, moves if self._above else none)
        return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)
