"""The entropy estimator: its divergence against loops, its range on known distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from quantizing import fake_quantize

from dovetail.ir import Array
from dovetail_quantizers.estimators import Bins, Entropy, Histogram
from dovetail_quantizers.estimators.entropy import divergence
from dovetail_quantizers.estimators.search import grids_of
from dovetail_quantizers.grid import Scheme, grid_for

generator = np.random.default_rng(2)


def chosen(
    values: Array, bitwidth: int = 8, symmetric: bool = False, unsigned: bool = False
) -> tuple[float, float]:
    estimator = Entropy(bitwidth=bitwidth, symmetric=symmetric, unsigned_symmetric=unsigned)
    estimator.observe(values.astype(np.float32))
    return estimator.range()


def sqnr(values: Array, minimum: float, maximum: float, bitwidth: int = 8) -> float:
    grid = grid_for(minimum, maximum, bitwidth, Scheme.ASYMMETRIC)
    kept = fake_quantize(values, grid.encoding, grid.dtype).astype(np.float64)
    return 10 * math.log10(float(np.mean(values**2) / np.mean((values - kept) ** 2)))


def divergence_by_loops(bins: Bins, scale: float, below: float, above: float) -> float:
    inside: dict[int, list[float]] = {}
    out_below = out_above = 0.0
    for start, stop, count in zip(bins.edges, bins.edges[1:], bins.counts, strict=False):
        step = round((start + stop) / 2 / scale)
        if not count:
            continue
        if step < below:
            out_below += count
        elif step > above:
            out_above += count
        else:
            inside.setdefault(step, []).append(float(count))
    if not inside:
        return math.inf
    p = [count for step in sorted(inside) for count in inside[step]]
    q = [sum(inside[step]) / len(inside[step]) for step in sorted(inside) for _ in inside[step]]
    total_q, total_p = sum(q), sum(p) + out_below + out_above
    p[0] += out_below
    p[-1] += out_above
    return sum(
        a / total_p * math.log((a / total_p) / (b / total_q)) for a, b in zip(p, q, strict=True)
    )


@pytest.mark.parametrize("scheme", [Scheme.ASYMMETRIC, Scheme.SYMMETRIC])
@pytest.mark.parametrize("bitwidth", [2, 4, 8])
def test_divergence_is_that_of_loops(scheme: Scheme, bitwidth: int) -> None:
    histogram = Histogram(bins=512)
    histogram.observe(generator.laplace(1, 1, 5000))
    bins = histogram.contents()
    cuts = np.array([1, 0.7, 0.2, 0.01])
    grids = grids_of(bins.minimum * cuts, bins.maximum * cuts[::-1], bitwidth, scheme)
    expected = [
        divergence_by_loops(bins, *numbers)
        for numbers in zip(grids.scales, grids.below, grids.above, strict=True)
    ]
    assert divergence(bins, grids) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_all_beyond_the_grid_is_infinite() -> None:
    bins = Bins(np.array([5.0, 6.0]), np.array([3]), 0, 1.0)
    grids = grids_of(np.array([0.0]), np.array([1.0]), 8, Scheme.ASYMMETRIC)
    assert divergence(bins, grids).tolist() == [math.inf]


@pytest.mark.parametrize("bitwidth", [4, 8])
def test_each_side_is_cut_by_itself(bitwidth: int) -> None:
    """Forty of 400,000 values far out on one side are cut off; on the other little is."""
    bulk = generator.normal(0, 0.3, 400_000)
    values = np.concatenate([bulk, generator.uniform(1, 30, 40)]).astype(np.float32)
    minimum, maximum = chosen(values, bitwidth)
    assert -1.5 < minimum < -0.8
    assert 0.7 < maximum < 5
    assert sqnr(bulk, minimum, maximum, bitwidth) > sqnr(bulk, bulk.min(), 30, bitwidth) + 15
    # But for where a tie rounds to, and that a value on an edge counts to the bin above.
    assert chosen(-values, bitwidth) == pytest.approx((-maximum, -minimum), rel=0.05)


def test_zeros_do_not_count() -> None:
    values = np.abs(generator.standard_normal(100_000))
    many = np.concatenate([values, np.zeros(1_000_000)])
    assert chosen(many) == (0, chosen(values)[1])


@pytest.mark.parametrize("name", ["normal", "laplace", "uniform", "relu"])
def test_ranges_serve(name: str) -> None:
    values = {
        "normal": generator.standard_normal(200_000),
        "laplace": generator.laplace(size=200_000),
        "uniform": generator.uniform(-1, 3, 200_000),
        "relu": np.maximum(generator.standard_normal(200_000), 0),
    }[name].astype(np.float32)
    minimum, maximum = chosen(values)
    # Information is not squared error, so it may be worse by that, but not by much.
    assert sqnr(values, minimum, maximum) > sqnr(values, values.min(), values.max()) - 0.5


@pytest.mark.parametrize("symmetric", [False, True])
def test_whole_range_where_the_histogram_says_nothing(symmetric: bool) -> None:
    few = generator.standard_normal(64).astype(np.float32)
    assert chosen(few, 4, symmetric) == (few.min(), few.max())
    many = generator.standard_normal(100_000).astype(np.float32)
    assert chosen(many, 16, symmetric) == (many.min(), many.max())


def test_unsigned_storage() -> None:
    values = np.abs(generator.laplace(size=100_000))
    assert chosen(values, 8, True, True) == chosen(values, 8)
