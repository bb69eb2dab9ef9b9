"""Samples that are read several times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dovetail.errors import QuantizationError
from dovetail.ir import Graph
from dovetail_quantizers.calibration.samples import is_repeatable, require_repeatable

SAMPLES = [{"x": np.zeros(2, np.float32)}]


def test_samples_that_can_be_read_again() -> None:
    assert is_repeatable(SAMPLES)
    assert require_repeatable(SAMPLES, Graph("net"), "a test reads samples") is SAMPLES


@pytest.mark.parametrize(
    ("samples", "why"),
    [(None, "there are none"), (iter(SAMPLES), "they can be read only once")],
)
def test_samples_that_cannot(samples: Iterator[Any] | None, why: str) -> None:
    assert not is_repeatable(samples)
    with pytest.raises(QuantizationError, match=f"a test reads samples, but {why}") as caught:
        require_repeatable(samples, Graph("net"), "a test reads samples")
    error = caught.value
    assert (error.code, error.where, error.hint) == (
        "CALIBRATION_EMPTY",
        "graph 'net'",
        "pass the samples as a list",
    )
