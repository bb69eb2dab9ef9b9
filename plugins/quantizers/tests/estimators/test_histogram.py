"""The streaming histogram: counts as NumPy's, the same for any split and order, bounded."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import Array
from dovetail_quantizers.estimators import Bins, Histogram

# Normal numbers of a size that tensors have: a bin's index of -1e-40 may round to 0 from below.
values = st.one_of(
    st.just(0.0),
    st.just(-0.0),
    st.floats(2.0**-60, 2.0**100, width=32),
    st.floats(-(2.0**100), -(2.0**-60), width=32),
    st.floats(-2, 2, width=16).filter(lambda x: x == 0 or abs(x) > 1e-3),
)
batches = st.lists(st.lists(values, max_size=20), min_size=1, max_size=6).filter(any)


def observed(*batches: Array, bins: int = 64) -> Bins:
    histogram = Histogram(bins=bins)
    for batch in batches:
        histogram.observe(batch)
    return histogram.contents()


def same(one: Bins, other: Bins) -> bool:
    return (one.zeros, one.width) == (other.zeros, other.width) and all(
        np.array_equal(a, b) for a, b in ((one.edges, other.edges), (one.counts, other.counts))
    )


@settings(derandomize=True)
@given(parts=batches, order=st.randoms(use_true_random=False))
def test_neither_split_nor_order_matters(parts: list[list[float]], order: random.Random) -> None:
    whole = np.array([x for part in parts for x in part], np.float32)
    shuffled = list(parts)
    order.shuffle(shuffled)
    in_parts = observed(*(np.array(part, np.float32) for part in shuffled))
    assert same(in_parts, observed(whole))
    assert same(in_parts, observed(*whole[::-1].reshape(-1, 1)))


@settings(derandomize=True)
@given(part=st.lists(values, min_size=1, max_size=60), most=st.integers(2, 64))
def test_counts_are_those_of_a_loop(part: list[float], most: int) -> None:
    histogram = Histogram(bins=64)
    histogram.observe(np.array(part, np.float32))
    for found in (histogram.contents(), histogram.contents(most)):
        expected: dict[int, int] = {}
        for x in part:
            if x:
                index = math.floor(x / found.width)
                expected[index] = expected.get(index, 0) + 1
        assert found.zeros == sum(x == 0 for x in part)
        assert found.counts[found.counts > 0].tolist() == [expected[i] for i in sorted(expected)]
        assert (found.minimum, found.maximum) == (min(part), max(part))
        assert (np.diff(found.edges) >= 0).all()
    assert max(expected, default=0) - min(0, *expected, 0) < most


def test_half_of_the_bins_are_in_use() -> None:
    for scale in (1e-30, 1e-3, 0.7, 1.0, 1e30):
        found = observed(np.linspace(-scale, 2 * scale, 10_000, dtype=np.float32), bins=256)
        assert 128 <= np.count_nonzero(found.counts) <= 256


def test_memory_does_not_grow() -> None:
    generator = np.random.default_rng(3)
    histogram = Histogram(bins=128)
    for power in range(-20, 20):
        histogram.observe(generator.standard_normal(1000).astype(np.float32) * 2.0**power)
        assert histogram.contents().edges.size <= 129
        assert sum(np.asarray(v).size for v in vars(histogram).values()) <= 128 + 10


def test_zeros_are_counted_apart() -> None:
    found = observed(np.array([0, -0.0, 0, 1, -3], np.float32))
    assert found.zeros == 3
    assert found.counts.sum() == 2
    assert 0 in found.edges


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_any_real_type(dtype: type) -> None:
    batch = np.arange(100).reshape(10, 10).astype(dtype)
    assert same(observed(batch, batch.T[::2]), observed(np.concatenate([batch, batch.T[::2]])))
    assert observed(batch).maximum == 99


def test_extremes_of_each_float_type() -> None:
    single = np.finfo(np.float32)
    found = observed(np.array([single.min, single.max, single.smallest_subnormal], np.float32))
    assert (found.minimum, found.maximum) == (single.min, single.max)
    assert found.counts.sum() == 3
    double = observed(np.array([-1e308, 1e308]), np.array([-1, 1], np.float32))
    assert (double.minimum, double.maximum) == (-1e308, 1e308)
    assert double.counts.sum() == 4


def test_what_is_not_finite_counts_for_nothing() -> None:
    batch = np.array([np.nan, 1, np.inf, -np.inf, -2], np.float32)
    assert same(observed(batch, batch[:1]), observed(np.array([1, -2], np.float32)))


def test_a_long_batch_with_one_fault_in_it() -> None:
    batch = np.linspace(-1, 1, 200_001, dtype=np.float32)
    batch[70_000] = np.nan
    assert same(observed(batch), observed(np.delete(batch, 70_000)))


@pytest.mark.parametrize("batch", [[], [np.nan, np.inf], [[], []]])
def test_nothing_observed(batch: list[float]) -> None:
    with pytest.raises(QuantizationError) as caught:
        observed(np.array(batch, np.float32))
    assert caught.value.code == "CALIBRATION_EMPTY"


@pytest.mark.parametrize("bins", [0, -1, 15, 64.0, True])
def test_too_few_bins(bins: int) -> None:
    with pytest.raises(ConfigError, match="bins"):
        Histogram(bins=bins)


def test_a_batch_is_not_changed() -> None:
    batch = np.linspace(-1, 1, 50, dtype=np.float32)
    batch.flags.writeable = False
    observed(batch)
