"""What estimators share: the finite elements of a batch, and the refusal of a missing range."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.calibration import RangeEstimator, finite, nothing_observed
from dovetail.ir import Array

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("batch", "kept"),
    [
        ([], []),
        (2.0, [2]),
        (NAN, []),
        ([[1, 2], [3, 4]], [1, 2, 3, 4]),
        ([[1, NAN], [-INF, 4]], [1, 4]),
        ([INF, -INF, NAN], []),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_finite_elements_in_order(batch: object, kept: list[float], dtype: type) -> None:
    found = finite(np.array(batch, dtype))
    assert found.tolist() == kept
    assert found.dtype == dtype
    assert found.ndim == 1


def test_a_batch_that_is_all_finite_is_not_copied() -> None:
    batch = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(finite(batch), batch)


def test_strides_do_not_matter() -> None:
    batch = np.arange(12.0).reshape(3, 4)
    batch[1, 2] = NAN
    assert finite(batch.T[::2]).tolist() == [0, 4, 8, 2, 10]


def test_no_range_is_an_error_of_the_samples() -> None:
    error = nothing_observed()
    assert (error.code, error.exit_code) == ("CALIBRATION_EMPTY", 3)
    assert "samples" in error.hint


class Whole:
    def observe(self, batch: Array) -> None: ...

    def range(self) -> tuple[float, float]:
        return 0, 0


class Half:
    def observe(self, batch: Array) -> None: ...


def test_the_contract_is_two_methods() -> None:
    assert isinstance(Whole(), RangeEstimator)
    assert not isinstance(Half(), RangeEstimator)
