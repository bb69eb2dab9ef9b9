"""What every estimator keeps: the contract of core, bounded ranges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.calibration import RangeEstimator
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import Array
from dovetail_quantizers.estimators import (
    Adjusted,
    Enhanced,
    Entropy,
    MinMax,
    Mse,
    Percentile,
    Sqnr,
)
from dovetail_quantizers.grid import Scheme, grid_for
from dovetail_quantizers.planning.recipe import QUANTIZER_MODES

FOR_A_GRID = [Adjusted, Enhanced, Entropy, Mse, Sqnr]
ALL = [*FOR_A_GRID, MinMax, Percentile]
INSIDE = [kind for kind in ALL if kind is not Adjusted]  # which widens a range

SAMPLES: dict[str, Array] = {
    "one": np.float32([3]),
    "one below": np.float32([-3]),
    "zeros": np.zeros((2, 3), np.float32),
    "rank 0": np.array(2.5, np.float32),
    "constant": np.full((4, 5), 1e-7, np.float32),
    "above": np.linspace(1000, 1001, 77, dtype=np.float32),
    "below": np.linspace(-9, -4, 77, dtype=np.float32),
    "two": np.float32([-1, 7] * 20),
    "tiny": np.linspace(-1e-30, 1e-30, 77, dtype=np.float32),
    "huge": np.float32([-3.4e38, 0, 1, 3.4e38]),
    "1e30": np.append(np.linspace(-1, 1, 999), 1e30).astype(np.float32),
    "mask": np.append(np.linspace(-1, 1, 999), np.finfo(np.float32).min).astype(np.float32),
}


@pytest.mark.parametrize("kind", ALL)
def test_keeps_the_contract(kind: Any) -> None:
    assert isinstance(kind(), RangeEstimator)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_range_that_a_grid_spans(kind: Any, name: str) -> None:
    sample = SAMPLES[name]
    estimator = kind()
    estimator.observe(sample)
    minimum, maximum = estimator.range()
    assert isinstance(minimum, float)
    assert isinstance(maximum, float)
    assert minimum <= maximum
    if kind in INSIDE:
        assert sample.min() <= minimum
        assert maximum <= sample.max()
    assert estimator.range() == (minimum, maximum)
    grid_for(minimum, maximum, 8, Scheme.ASYMMETRIC)


@pytest.mark.parametrize("kind", ALL)
def test_batches_are_as_one(kind: Any) -> None:
    generator = np.random.default_rng(1)
    batch = generator.laplace(size=(6, 500)).astype(np.float32)
    whole, parts = kind(), kind()
    whole.observe(batch)
    for part in reversed(batch):
        parts.observe(part)
        parts.observe(np.float32([np.nan, np.inf]))
        parts.observe(np.zeros((0, 3), np.float32))
    assert parts.range() == whole.range()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("batch", [[], [np.nan], [np.inf, -np.inf]])
def test_nothing_observed(kind: Any, batch: list[float]) -> None:
    estimator = kind()
    estimator.observe(np.array(batch, np.float32))
    with pytest.raises(QuantizationError) as caught:
        estimator.range()
    assert caught.value.code == "CALIBRATION_EMPTY"


@pytest.mark.parametrize("kind", FOR_A_GRID)
@pytest.mark.parametrize("bitwidth", [1, 0, -8, 17, 8.0, True, "8"])
def test_bitwidths_that_cannot_be(kind: Any, bitwidth: object) -> None:
    with pytest.raises(ConfigError, match="bitwidth") as caught:
        kind(bitwidth=bitwidth)
    assert "2 to 16" in caught.value.hint


@pytest.mark.parametrize("kind", [Enhanced, Entropy, Mse, Percentile, Sqnr])
def test_too_few_bins(kind: Any) -> None:
    with pytest.raises(ConfigError, match="bins"):
        kind(bins=3)


def test_modes_of_the_sdk() -> None:
    kinds = {"min-max", "enhanced", "adjusted"}
    assert {mode.estimator for mode in QUANTIZER_MODES.values()} == kinds
    symmetric = [name for name, mode in QUANTIZER_MODES.items() if mode.scheme is Scheme.SYMMETRIC]
    assert symmetric == ["symmetric"]
