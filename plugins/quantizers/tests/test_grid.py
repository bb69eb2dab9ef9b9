"""The arithmetic of encodings: the reference's worked examples, and what holds for every range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from quantizing import fake_quantize

from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import DType, ScaleOffset, quantize
from dovetail_quantizers.grid import (
    Grid,
    Scheme,
    grid_for,
    grids_for,
    storage_type,
)

FLOAT_MAX = float(np.finfo(np.float32).max)
ASYMMETRIC, SYMMETRIC, UNSIGNED = Scheme.ASYMMETRIC, Scheme.SYMMETRIC, Scheme.UNSIGNED_SYMMETRIC

ends = st.floats(-FLOAT_MAX, FLOAT_MAX, width=32)
bitwidths = st.sampled_from([2, 3, 4, 8, 16])


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    one, other = draw(ends), draw(ends)
    return min(one, other), max(one, other)


def stored(grid: Grid, *values: float) -> list[int]:
    return quantize(np.array(values), grid.encoding, grid.dtype).tolist()


def test_worked_example_of_the_reference() -> None:
    grid = grid_for(-1.8, 0.5, 8, ASYMMETRIC)
    assert f"{grid.scale:.6f}" == "0.009020"
    assert grid.offset == -200
    assert [f"{end:.6f}" for end in grid.range] == ["-1.803922", "0.496078"]
    values = np.array([-1.8, -1.0, 0, 0.5], np.float32)
    assert stored(grid, *values) == [0, 89, 200, 255]
    found = fake_quantize(values, grid.encoding, grid.dtype)
    # The reference prints four digits, and the last of -1.00118 as if cut off.
    assert found == pytest.approx([-1.8039, -1.0011, 0, 0.4961], abs=1e-4)


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected", "zero"),
    [
        (5.0, 10.0, (0.0, 10.0), 0),
        (-20.0, -6.0, (-20.0, 0.0), 255),
        (-5.1, 5.1, (-5.12, 5.08), 128),
        (0.0, 0.0, (0.0, 0.0001), 0),
        (-0.0, 0.0, (0.0, 0.0001), 0),
        (5.0, 5.0, (0.0, 5.0), 0),
        (-3.0, -3.0, (-3.0, 0.0), 255),
        (1e-5, 2e-5, (0.0, 0.0001), 0),
    ],
)
def test_other_ranges_of_the_reference(
    minimum: float, maximum: float, expected: tuple[float, float], zero: int
) -> None:
    grid = grid_for(minimum, maximum, 8, ASYMMETRIC)
    assert grid.range == pytest.approx(expected, rel=1e-7)  # the scale is a float32
    assert stored(grid, 0.0) == [zero]
    assert grid.range[0] <= 0 <= grid.range[1]


def test_the_constant_is_a_point() -> None:
    grid = grid_for(5.0, 5.0, 8, ASYMMETRIC)
    assert fake_quantize(np.float32([5]), grid.encoding, grid.dtype) == pytest.approx([5], rel=1e-7)


@pytest.mark.parametrize(("bitwidth", "most"), [(4, 7), (8, 127), (16, 32767), (32, 2**31 - 1)])
def test_symmetric_scale(bitwidth: int, most: int) -> None:
    grid = grid_for(-1.0, 0.25, bitwidth, SYMMETRIC)
    assert (grid.offset, grid.bitwidth) == (0, bitwidth)
    assert grid.scale == pytest.approx(1 / most, rel=1e-7)
    low, high = grid.range
    assert (low, high) == pytest.approx((-1 - 1 / most, 1), rel=1e-6)


def test_unsigned_symmetric_has_all_steps_above_zero() -> None:
    grid = grid_for(0.5, 51.0, 8, UNSIGNED)
    assert (grid.dtype, grid.offset) == (DType.UFIXED_POINT_8, 0)
    assert grid.scale == pytest.approx(0.2, rel=1e-7)


@pytest.mark.parametrize(
    ("bitwidth", "scheme", "dtype", "encoded"),
    [
        (4, SYMMETRIC, DType.SFIXED_POINT_8, 4),
        (8, SYMMETRIC, DType.SFIXED_POINT_8, None),
        (8, ASYMMETRIC, DType.UFIXED_POINT_8, None),
        (12, ASYMMETRIC, DType.UFIXED_POINT_16, 12),
        (16, UNSIGNED, DType.UFIXED_POINT_16, None),
        (32, SYMMETRIC, DType.SFIXED_POINT_32, None),
    ],
)
def test_storage(bitwidth: int, scheme: Scheme, dtype: DType, encoded: int | None) -> None:
    assert storage_type(bitwidth, scheme) is dtype
    grid = grid_for(0, 1, bitwidth, scheme)
    assert grid.dtype is dtype
    assert grid.encoding == ScaleOffset(grid.scale, grid.offset, encoded)
    assert grid.encoding.faults((1,), dtype) == []


@settings(derandomize=True)
@given(limits=ranges(), bitwidth=bitwidths, scheme=st.sampled_from([ASYMMETRIC, SYMMETRIC]))
def test_every_grid_holds_its_range(
    limits: tuple[float, float], bitwidth: int, scheme: Scheme
) -> None:
    minimum, maximum = limits
    grid = grid_for(minimum, maximum, bitwidth, scheme)
    low, high = grid.range
    assert grid.scale == float(np.float32(grid.scale))
    assert -FLOAT_MAX <= low <= 0 <= high <= FLOAT_MAX
    assert high - low >= 0.0001 * (1 - 1e-6)  # of a float32 scale
    kept = fake_quantize(np.array([0.0, minimum, maximum]), grid.encoding, grid.dtype)
    assert kept[0] == 0
    # Half a step, and the rounding of scale and product to float32. The grid's points must be
    # finite: where that takes a smaller scale, an end is up to one step off.
    limited = max(-low, high) >= FLOAT_MAX * (1 - 1e-6)
    allowed = grid.scale * (1 if limited else 0.5) + 3e-7 * max(abs(minimum), abs(maximum))
    assert abs(float(kept[1]) - minimum) <= allowed
    assert abs(float(kept[2]) - maximum) <= allowed


@settings(derandomize=True)
@given(limits=ranges(), bitwidth=bitwidths, values=st.lists(ends, min_size=2, max_size=20))
def test_quantization_is_monotone_and_settles(
    limits: tuple[float, float], bitwidth: int, values: list[float]
) -> None:
    grid = grid_for(*limits, bitwidth, ASYMMETRIC)
    kept = fake_quantize(np.sort(np.array(values)), grid.encoding, grid.dtype)
    assert (np.diff(kept.astype(np.float64)) >= 0).all()
    assert fake_quantize(kept, grid.encoding, grid.dtype).tolist() == kept.tolist()


@settings(derandomize=True)
@given(
    limits=st.lists(ranges(), max_size=6),
    bitwidth=bitwidths,
    scheme=st.sampled_from([ASYMMETRIC, SYMMETRIC]),
)
def test_channels_are_as_tensors_of_their_own(
    limits: list[tuple[float, float]], bitwidth: int, scheme: Scheme
) -> None:
    scales, offsets = grids_for(
        [low for low, _ in limits], [high for _, high in limits], bitwidth, scheme
    )
    assert (scales.dtype, offsets.dtype) == (np.float32, np.int32)
    alone = [grid_for(low, high, bitwidth, scheme) for low, high in limits]
    assert list(zip(scales.tolist(), offsets.tolist(), strict=True)) == [
        (grid.scale, grid.offset) for grid in alone
    ]


@settings(derandomize=True)
@given(limits=ranges(), more=st.floats(1, 100))
def test_a_wider_range_has_no_finer_grid(limits: tuple[float, float], more: float) -> None:
    minimum, maximum = limits
    assume(max(abs(minimum), abs(maximum)) * more < FLOAT_MAX)
    for scheme in (ASYMMETRIC, SYMMETRIC):
        wide = grid_for(minimum * more, maximum * more, 8, scheme)
        assert wide.scale >= grid_for(minimum, maximum, 8, scheme).scale


@settings(derandomize=True)
@given(bound=st.floats(2.0**-14, FLOAT_MAX / 2, width=32))
def test_32_bits_reach_the_end(bound: float) -> None:
    # To nearest, a float32 scale would leave the end up to 128 steps off.
    grid = grid_for(-bound, bound, 32, SYMMETRIC)
    assert bound - grid.scale * (2**31 - 1) <= grid.scale * 0.51
    assert grid.scale == pytest.approx(bound / (2**31 - 1), rel=2e-7)


def test_the_whole_pair_is_the_plain_grid() -> None:
    for scheme in (ASYMMETRIC, SYMMETRIC):
        plain = grid_for(-1.8, 0.5, 8, scheme)
        assert grid_for(-1.8, 0.5, 8, scheme, steps=(-0x80, 0x7F)) == plain


@pytest.mark.parametrize(
    ("bitwidth", "minimum", "maximum", "last"),
    [(4, -1.5, 1.5, 3), (4, -0.5, 3.5, 4), (8, -125.5, 125.5, 251)],
)
def test_ends_that_are_both_ties_stay_within_the_steps(
    bitwidth: int, minimum: float, maximum: float, last: int
) -> None:
    grid = grid_for(minimum, maximum, bitwidth, ASYMMETRIC, steps=(0, last))
    assert grid.scale == 1
    assert max(stored(grid, minimum, maximum)) == last


@settings(derandomize=True)
@given(limits=ranges(), low=st.integers(-0x8000, -1), high=st.integers(1, 0x7FFF))
def test_steps_keep_stored_integers_between_them(
    limits: tuple[float, float], low: int, high: int
) -> None:
    minimum, maximum = limits
    # beyond, the points that the pair leaves unused would be no float32, and the grid shrinks
    assume(max(abs(minimum), abs(maximum)) < FLOAT_MAX / 2**17)
    symmetric = grid_for(minimum, maximum, 16, SYMMETRIC, steps=(low, high))
    assert low <= min(stored(symmetric, minimum, maximum))
    assert max(stored(symmetric, minimum, maximum)) <= high
    asymmetric = grid_for(minimum, maximum, 16, ASYMMETRIC, steps=(low, high))
    assert max(stored(asymmetric, minimum, maximum)) <= high - low
    span = max(max(maximum, 0) - min(minimum, 0), 0.0001)
    assert asymmetric.scale == pytest.approx(span / (high - low), rel=1e-6)


@pytest.mark.parametrize(
    ("bitwidth", "scheme", "steps"),
    [
        (1, SYMMETRIC, None),
        (33, SYMMETRIC, None),
        (32, ASYMMETRIC, None),
        (8.0, ASYMMETRIC, None),
        (True, ASYMMETRIC, None),
        (8, ASYMMETRIC, (0, 0)),
        (8, ASYMMETRIC, (5, -5)),
        (8, ASYMMETRIC, (-0x8000, 0x7FFF)),
        (8, SYMMETRIC, (0, 255)),
        (8, SYMMETRIC, (-0x81, 0x10)),
    ],
)
def test_grids_that_cannot_be(bitwidth: int, scheme: Scheme, steps: tuple[int, int] | None) -> None:
    with pytest.raises(ConfigError) as caught:
        grid_for(-1, 1, bitwidth, scheme, steps=steps)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("minimum", "maximum", "why"),
    [
        (np.nan, 1, "not finite"),
        (0, np.inf, "not finite"),
        (-np.inf, 0, "not finite"),
        (0, 1e39, "not finite in float32"),
        (1, 0, "not in order"),
    ],
)
@pytest.mark.parametrize("scheme", [ASYMMETRIC, SYMMETRIC, UNSIGNED])
def test_ranges_that_no_grid_spans(
    minimum: float, maximum: float, why: str, scheme: Scheme
) -> None:
    with pytest.raises(QuantizationError, match=why):
        grid_for(minimum, maximum, 8, scheme)


def test_every_bad_channel_is_named() -> None:
    with pytest.raises(QuantizationError) as caught:
        grids_for([0, np.nan, -1, -2], [1, 1, -3, 1], 8, UNSIGNED)
    assert caught.value.message == "3 ranges cannot be quantized"
    assert [str(problem) for problem in caught.value.problems] == [
        "channel 1: the range nan to 1 is not finite in float32",
        "channel 2: the range -1 to -3 is not in order",
        "channel 3: the range -2 to 1 contains negative values, which an unsigned symmetric grid "
        "cannot represent",
    ]


def test_one_bad_channel_is_named() -> None:
    with pytest.raises(QuantizationError) as caught:
        grids_for([0, 0, 0], [1, np.inf, 1], 8, ASYMMETRIC)
    assert (caught.value.where, caught.value.problems) == ("channel 1", ())
