"""The range estimator contract: what is observed of a tensor while calibrating, and its range.

An estimator is an entry point of `dovetail.range_estimators` that loads a class. It is made with
keyword parameters, each with a default; one object serves one tensor, or one channel of it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from dovetail.errors import QuantizationError
from dovetail.ir import Array


@runtime_checkable
class RangeEstimator(Protocol):
    """Watches the values of a tensor and says which range of them an encoding is to span.

    It streams: what it keeps must not grow with the number of batches or of elements.
    """

    def observe(self, batch: Array) -> None:
        """Take the values of one run into account.

        Args:
            batch: Real values, any shape, maybe none. Not changed, and not kept: its bytes are
                valid during the call only. Elements that are not finite count for nothing
                (`finite` leaves them out), since no range can span them.
        """

    def range(self) -> tuple[float, float]:
        """Return the least and the greatest value that the encoding is to hold.

        Both are finite and in order. Zero need not be between them, nor both be in one proportion:
        the encoding is chosen elsewhere.

        Raises:
            QuantizationError: No finite value was observed (CALIBRATION_EMPTY).
        """


def finite(batch: Array) -> Array:
    """Return the finite elements of a batch in one row: a view where all of them are."""
    values = batch.reshape(-1)
    kept = np.isfinite(values)
    return values if kept.all() else values[kept]


def nothing_observed() -> QuantizationError:
    """Return the error for a range that is asked for before any finite value was observed."""
    return QuantizationError(
        "no finite value was observed, so there is no range",
        code="CALIBRATION_EMPTY",
        hint="calibrate with samples that reach this tensor; a tensor of NaN has no range",
    )
