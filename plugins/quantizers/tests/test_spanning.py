"""The encoding that spans several ones."""

from __future__ import annotations

import pytest

from dovetail.ir import DType, ScaleOffset
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.spanning import spanning

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16


def grid(dtype: DType, scale: float, offset: int, bitwidth: int | None = None) -> EncodingDecision:
    return EncodingDecision(dtype, ScaleOffset(scale, offset, bitwidth), "test")


NARROW, WIDE = grid(U8, 0.01, -128), grid(U8, 0.02, -100)
FINE = grid(U16, 0.01 / 257, -128 * 257)


@pytest.mark.parametrize(
    ("grids", "expected"),
    [
        ([NARROW], NARROW),
        ([NARROW, WIDE], WIDE),
        ([WIDE, NARROW], WIDE),
        ([NARROW, FINE], FINE),
        ([grid(S8, 0.01, 0), NARROW], grid(S8, 0.01, 0)),
        ([grid(U8, 0.2, -8, 4), NARROW], grid(U8, 0.2, -8, 4)),
    ],
)
def test_the_finest_that_spans_all(
    grids: list[EncodingDecision], expected: EncodingDecision
) -> None:
    assert spanning(grids) == expected


@pytest.mark.parametrize(
    ("grids", "dtype"),
    [
        ([grid(U8, 0.01, -10), grid(U8, 0.01, -250)], U8),
        ([grid(U16, 0.01, -10), grid(U8, 0.02, -250)], U16),
        ([grid(U8, 0.2, -2, 4), grid(U8, 0.2, -14, 4)], U8),
    ],
)
def test_a_wider_grid_if_none_spans_all(grids: list[EncodingDecision], dtype: DType) -> None:
    made = spanning(grids)
    assert made.dtype is dtype
    assert made.ends is not None
    assert isinstance(made.encoding, ScaleOffset)
    step = made.encoding.scale
    ends = [one.ends for one in grids if one.ends is not None]
    # half a step, because 0 is a point of the grid
    assert made.ends[0] == pytest.approx(min(low for low, _ in ends), abs=0.51 * step)
    assert made.ends[1] == pytest.approx(max(high for _, high in ends), abs=0.51 * step)
