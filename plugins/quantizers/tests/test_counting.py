"""The same points of a grid as integers of another type."""

from __future__ import annotations

import pytest

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset
from dovetail_quantizers.planning.encoding_decision import EncodingDecision

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


def decision(dtype: DType, offset: int, bitwidth: int | None = None) -> EncodingDecision:
    return EncodingDecision(dtype, ScaleOffset(0.5, offset, bitwidth), "test")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (decision(S8, 0), decision(U8, -128)),
        (decision(S16, 0), decision(U16, -32768)),
        (decision(S8, 0, 4), decision(U8, -8, 4)),
        (decision(U8, -100), decision(U8, -100)),
    ],
)
def test_points_stay(one: EncodingDecision, other: EncodingDecision) -> None:
    assert one.counted_as(other.dtype) == other
    assert other.counted_as(one.dtype) == one
    assert one.ends == other.ends


@pytest.mark.parametrize(
    ("one", "dtype"),
    [
        (decision(U8, -100), S8),  # it would need an offset
        (decision(U8, -128), U16),
        (decision(U8, -128), DType.FLOAT_16),
        (EncodingDecision(S8, AxisScaleOffset(0, [0.5, 0.25]), "test"), U8),
    ],
)
def test_other_points(one: EncodingDecision, dtype: DType) -> None:
    assert one.counted_as(dtype) is None
