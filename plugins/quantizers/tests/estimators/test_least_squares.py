"""mse, sqnr and enhanced against a search through all ranges on the raw values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizing import fake_quantize

from dovetail.ir import Array
from dovetail_quantizers.estimators import Enhanced, Mse, Sqnr
from dovetail_quantizers.grid import Scheme, grid_for

_COUNT = 6000
generator = np.random.default_rng(11)
DATA = {
    "normal": generator.standard_normal(_COUNT),
    "laplace": generator.laplace(0.3, 1, _COUNT),
    "uniform": generator.uniform(-1, 3, _COUNT),
    "relu": np.maximum(generator.standard_normal(_COUNT), 0),
    "bimodal": np.concatenate(
        [generator.normal(-3, 0.1, _COUNT // 2), generator.normal(7, 0.5, _COUNT // 2)]
    ),
    "long tails": generator.standard_t(3, _COUNT),
    "below zero": -generator.gamma(2, 1, _COUNT),
    "one tail": np.concatenate(
        [generator.normal(0, 0.3, _COUNT), generator.uniform(1, 5, _COUNT // 1000)]
    ),
    "image": generator.integers(0, 256, _COUNT) / 255,
    "channel": generator.standard_normal(72) * 0.02,
}
DATA = {name: values.astype(np.float32) for name, values in DATA.items()}
SCHEMES = {False: Scheme.ASYMMETRIC, True: Scheme.SYMMETRIC}


def noise(
    values: Array, minimum: float, maximum: float, bitwidth: int, symmetric: bool, weight: float = 1
) -> float:
    """The mean squared error, written out; `weight` is that of errors beyond the grid's ends."""
    steps = 2**bitwidth - 1
    if symmetric:
        scale = max(abs(minimum), abs(maximum)) / (2 ** (bitwidth - 1) - 1)
        low, high = -(2 ** (bitwidth - 1)), 2 ** (bitwidth - 1) - 1
    else:
        minimum, maximum = min(minimum, 0), max(maximum, 0)
        scale = (maximum - minimum) / steps
        low = -int(np.floor(-minimum / scale + 0.5))
        high = low + steps
    held = np.clip(values.astype(np.float64), low * scale, high * scale)
    rounding = np.rint(held / scale) * scale - held
    return float(np.mean(rounding**2 + weight * (values - held) ** 2))


def best_of_all(values: Array, bitwidth: int, symmetric: bool, weight: float) -> float:
    """The least error of any range, either side cut by itself to 2^-4 in steps of 2^-(1/10)."""
    cuts = 2.0 ** -np.arange(0, 4, 0.1)
    minimum, maximum = min(float(values.min()), 0), max(float(values.max()), 0)
    lows = minimum * cuts if minimum and not symmetric else [minimum]
    highs = maximum * cuts if maximum and not symmetric else [maximum]
    pairs = [(low, high) for low in lows for high in highs]
    if symmetric:
        bound = max(-minimum, maximum)
        pairs = [(-bound * cut, bound * cut) for cut in cuts]
    return min(noise(values, low, high, bitwidth, symmetric, weight) for low, high in pairs)


def chosen(kind: Any, values: Array, bitwidth: int, symmetric: bool) -> tuple[float, float]:
    estimator = kind(bitwidth=bitwidth, symmetric=symmetric)
    for part in np.array_split(values, 3):
        estimator.observe(part)
    minimum, maximum = estimator.range()
    return minimum, maximum


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("bitwidth", "symmetric"), [(8, False), (4, False), (8, True), (4, True)])
@pytest.mark.parametrize(("kind", "weight"), [(Mse, 1), (Enhanced, 3)])
def test_no_range_is_much_better(
    kind: Any, weight: float, name: str, bitwidth: int, symmetric: bool
) -> None:
    values = DATA[name]
    found = chosen(kind, values, bitwidth, symmetric)
    error = noise(values, *found, bitwidth, symmetric, weight)
    # 3 %, 0.13 dB: the histogram knows values to a bin only, of which a step of the finest grid
    # has 8; a channel's few values are not spread evenly over their bins.
    assert (
        error
        <= best_of_all(values, bitwidth, symmetric, weight) * (1.03 if values.size > 100 else 1.15)
        + 1e-12
    )


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("bitwidth", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("kind", [Mse, Sqnr, Enhanced])
def test_min_max_is_not_better(kind: Any, name: str, bitwidth: int, symmetric: bool) -> None:
    values = DATA[name]
    scheme = SCHEMES[symmetric]

    def error(minimum: float, maximum: float) -> float:
        grid = grid_for(minimum, maximum, bitwidth, scheme)
        kept = fake_quantize(values, grid.encoding, grid.dtype).astype(np.float64)
        return float(np.mean((values - kept) ** 2))

    whole = error(float(values.min()), float(values.max()))
    # On the histogram it never is; the values themselves lie somewhere in their bins.
    allowed = 1.01 if values.size > 100 else 1.05
    assert error(*chosen(kind, values, bitwidth, symmetric)) <= whole * allowed + 1e-13


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("bitwidth", [4, 8])
def test_the_sign_does_not_matter(name: str, bitwidth: int) -> None:
    values = DATA[name]
    minimum, maximum = chosen(Mse, values, bitwidth, False)
    mirrored = chosen(Mse, -values, bitwidth, False)
    # Zero points round a tie up, so the two errors may differ by a little.
    assert noise(-values, *mirrored, bitwidth, False) == pytest.approx(
        noise(values, minimum, maximum, bitwidth, False), rel=0.03, abs=1e-12
    )


def test_a_long_tail_is_cut() -> None:
    """An outlier of 12 deviations: 8 bits are better off without, 16 bits hold all."""
    values = np.append(generator.standard_normal(200_000), 12).astype(np.float32)
    assert 6 < chosen(Mse, values, 8, False)[1] < 10  # 8.7: one value may be far off
    assert chosen(Mse, values, 16, False)[1] == 12
    assert chosen(Mse, values, 4, False)[1] < chosen(Enhanced, values, 4, False)[1] < 6


def test_zeros_do_not_draw_the_range_in() -> None:
    """Zeros cost nothing on any grid: the range is that of the other values alone."""
    values = np.abs(DATA["normal"])
    many = np.concatenate([values, np.zeros(50 * values.size, np.float32)])
    for bitwidth in (4, 8):
        assert chosen(Mse, many, bitwidth, False) == (
            0,
            chosen(Mse, values, bitwidth, False)[1],
        )


def test_unsigned_storage_is_chosen_for_as_it_is() -> None:
    """Without a sign there are twice the steps, so less is cut."""
    values = DATA["relu"]
    unsigned, signed = (
        Mse(bitwidth=4, symmetric=True, unsigned_symmetric=given) for given in (True, False)
    )
    for estimator in (unsigned, signed):
        estimator.observe(values)
    assert unsigned.range() == chosen(Mse, values, 4, False)
    assert unsigned.range()[1] > signed.range()[1]
    below = Mse(bitwidth=4, symmetric=True, unsigned_symmetric=True)
    below.observe(DATA["normal"])
    assert below.range() == chosen(Mse, DATA["normal"], 4, True)


@settings(derandomize=True, max_examples=60)  # a search takes milliseconds
@given(
    values=st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=30),
    bitwidth=st.sampled_from([2, 4, 8, 16]),
    symmetric=st.booleans(),
)
def test_any_values(values: list[float], bitwidth: int, symmetric: bool) -> None:
    batch = np.array(values, np.float32)
    minimum, maximum = chosen(Mse, batch, bitwidth, symmetric)
    assert batch.min() <= minimum <= maximum <= batch.max()
    assert (minimum, maximum) == chosen(Sqnr, batch[::-1], bitwidth, symmetric)
