"""Contract of range estimators, which observe a tensor during calibration and choose its range.

An estimator is a class that an entry point of `dovetail.range_estimators` loads. Its parameters are
keywords with defaults; each object observes one tensor or one channel.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from dovetail.errors import QuantizationError
from dovetail.ir import Array


@runtime_checkable
class RangeEstimator(Protocol):
    """Observes the values of a tensor and chooses the range that its encoding covers.

    Memory must not grow with the number of batches or elements.
    """

    def observe(self, batch: Array) -> None:
        """Observe the values of one run.

        Args:
            batch: Real values, any shape, possibly empty. Must not be changed; valid during the
                call only. Elements that are not finite must be ignored (see `finite`), since no
                range covers them.
        """

    def range(self) -> tuple[float, float]:
        """Return the minimum and maximum that the encoding covers.

        Both are finite, and the minimum comes first. They need not include zero or be symmetric:
        the encoding is chosen elsewhere.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """


def finite(batch: Array) -> Array:
    """Return the finite elements of a batch, shape (n,); a view if all are finite."""
    values = batch.reshape(-1)
    kept = np.isfinite(values)
    return values if kept.all() else values[kept]


def nothing_observed() -> QuantizationError:
    """Return the error of a range estimator that observed no finite value."""
    return QuantizationError(
        "no finite value was observed",
        code="CALIBRATION_EMPTY",
        hint="calibrate with samples that reach this tensor; a tensor of NaN has no range",
    )
