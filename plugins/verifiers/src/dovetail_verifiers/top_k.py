"""The verifier of classifications: TopK."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.verification import Comparison, VerificationError, Worst
from dovetail_verifiers._parameters import Count, Percentage

_PIECE = 1 << 16  # elements

Mask = NDArray[np.bool_]


class TopK:
    """The percentage of rows whose `k` largest elements are at the same indices in both tensors.

    A row is what the last axis spans. Of equal elements, the one of lower index is the larger one.
    NaN is smaller than anything; a row with NaN at an index where the other has none never matches.

    Args:
        k: Number of elements, at most the size of the last axis.
        ordered: Whether their order must be the same, too.
        threshold: Minimum percentage that passes.
    """

    def __init__(
        self, *, k: Count = 1, ordered: bool = False, threshold: Percentage = 100.0
    ) -> None:
        self._k, self._ordered, self._threshold = k, ordered, threshold
        self._blocks = self._rows = self._matched = self._common = 0
        self._golden_nan = self._target_nan = 0
        self._worst: Worst | None = None

    def update(self, golden: Array, target: Array) -> None:
        """Compare a block of rows, shape (..., n)."""
        size = golden.shape[-1] if golden.ndim else 1
        if golden.size:
            if size < self._k:
                raise VerificationError(
                    f"the last axis of the tensors has {size} elements, fewer than k = {self._k}",
                    where="verifier 'TopK'",
                    hint="compare tensors of class scores, or set a smaller 'k'",
                )
            g, t = golden.reshape(-1, size), target.reshape(-1, size)
            count = max(1, _PIECE // size)
            for start in range(0, len(g), count):
                self._add(g[start : start + count], t[start : start + count], start, golden.shape)
        self._blocks += 1

    def finish(self) -> Comparison:
        """Return the comparison."""
        value = 100 * self._matched / self._rows if self._rows else 100.0
        elements = self._rows * self._k
        return Comparison(
            passed=value >= self._threshold,
            value=value,
            threshold=self._threshold,
            unit="%",
            worst=self._worst,
            details={
                "rows": self._rows,
                "matched_rows": self._matched,
                "common": self._common / elements if elements else 1.0,
                "golden_nan": self._golden_nan,
                "target_nan": self._target_nan,
            },
        )

    def _add(self, golden: Array, target: Array, start: int, shape: tuple[int, ...]) -> None:
        (g, g_nan), (t, t_nan) = _ranked(golden), _ranked(target)
        g_top, t_top = _largest(g, self._k), _largest(t, self._k)
        order = _in_order(g, g_top, self._k)
        if self._ordered:
            same = order == _in_order(t, t_top, self._k)
        else:
            same = np.take_along_axis(t_top, order, axis=1)
        odd = g_nan != t_nan
        matched = same.all(axis=1) & ~odd.any(axis=1)
        self._rows += len(g)
        self._matched += int(np.count_nonzero(matched))
        self._common += int(np.count_nonzero(same))
        self._golden_nan += int(np.count_nonzero(g_nan))
        self._target_nan += int(np.count_nonzero(t_nan))
        if self._worst is None and not matched.all():
            row = int(np.argmin(matched))
            lost = ~same[row]
            column = int(order[row, np.argmax(lost)]) if lost.any() else int(np.argmax(odd[row]))
            values = float(golden[row, column]), float(target[row, column])
            leading = np.unravel_index(start + row, shape[:-1])
            index = (*(int(i) for i in leading), column) if shape else ()
            self._worst = Worst(self._blocks, index, *values)


def _ranked(values: Array) -> tuple[Array, Mask]:
    """Return values without NaN, and where it was."""
    if values.dtype.kind != "f":
        return values, np.zeros(values.shape, np.bool_)
    nan = np.isnan(values)
    return (np.where(nan, -np.inf, values) if nan.any() else values), nan


def _largest(values: Array, k: int) -> Mask:
    """Return where the k largest elements of each row are, shape (rows, n)."""
    limit = np.partition(values, -k, axis=1)[:, -k, None]
    above, equal = values > limit, values == limit
    missing = k - np.count_nonzero(above, axis=1)[:, None]
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1) <= missing)))


def _in_order(values: Array, top: Mask, k: int) -> NDArray[np.intp]:
    """Return the indices of the k largest elements, largest first, shape (rows, k)."""
    indices = np.nonzero(top)[1].reshape(-1, k)
    chosen = np.take_along_axis(values, indices, axis=1)
    # A stable descending order: of equal elements, the lower index stays first.
    order = (k - 1 - np.argsort(chosen[:, ::-1], axis=1, kind="stable"))[:, ::-1]
    return np.take_along_axis(indices, order, axis=1)
