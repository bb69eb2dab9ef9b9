"""The percentile estimator against NumPy's percentiles of the raw values."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import ConfigError
from dovetail.ir import Array
from dovetail_quantizers.estimators import Percentile

generator = np.random.default_rng(7)
DATA = {
    "normal": generator.standard_normal(50_000),
    "laplace": generator.laplace(2, 1, 50_000),
    "relu": np.maximum(generator.standard_normal(50_000), 0),
    "minus relu": -np.maximum(generator.standard_normal(50_000), 0),
    "mostly zero": np.where(generator.random(50_000) < 0.3, generator.normal(size=50_000), 0),
    "uniform": generator.uniform(-1, 3, 50_000),
}


def found(values: Array, percentile: float) -> tuple[float, float]:
    estimator = Percentile(percentile=percentile)
    for part in np.array_split(values.astype(np.float32), 7):
        estimator.observe(part)
    return estimator.range()


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("percentile", [90, 99, 99.9, 99.99])
def test_agrees_with_the_percentiles_of_the_values(name: str, percentile: float) -> None:
    values = DATA[name]
    expected = np.percentile(values, [100 - percentile, percentile])
    # A bin is at most a 2048th of the range from zero; and the percentile is anywhere between the
    # two values about it, which lie apart in a tail.
    ordered, bin_width = np.sort(values), (max(values.max(), 0) - min(values.min(), 0)) / 2048
    for end, target in zip(found(values, percentile), expected, strict=True):
        place = int(np.searchsorted(ordered, target))
        low, high = ordered[max(place - 2, 0)], ordered[min(place + 2, ordered.size - 1)]
        assert low - bin_width <= end <= high + bin_width


def test_zeros_are_exact() -> None:
    assert found(DATA["relu"], 99)[0] == 0
    assert found(DATA["minus relu"], 99)[1] == 0
    assert found(np.append(np.zeros(9999), [5.0]), 99.9) == (0, 0)


def test_the_100th_leaves_out_nothing() -> None:
    for values in DATA.values():
        single = values.astype(np.float32)
        assert found(values, 100) == (single.min(), single.max())


def test_few_outliers_do_not_count() -> None:
    values = np.concatenate([DATA["normal"], [40.0, -40.0]])
    minimum, maximum = found(values, 99.9)
    assert minimum == pytest.approx(-3.09, abs=0.15)  # of the normal distribution, from a sample
    assert maximum == pytest.approx(3.09, abs=0.15)


@pytest.mark.parametrize("percentile", [89.9, 100.1, -1, np.nan, np.inf, True, "99"])
def test_percentiles_that_cannot_be(percentile: float) -> None:
    with pytest.raises(ConfigError, match="percentile") as caught:
        Percentile(percentile=percentile)
    assert "90 to 100" in caught.value.hint
