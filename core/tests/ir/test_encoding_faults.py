"""What an encoding says of a tensor that it does not fit."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    EncodingMapping,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Vector,
)

S8, U4 = DType.SFIXED_POINT_8, DType.UFIXED_POINT_4


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def expansion(rows: int = 2, blocks: int = 3, **changes: object) -> BlockwiseExpansion:
    given = {
        "axis": 0,
        "scales": f32(*[1] * rows),
        "block_scales": np.ones((rows, blocks), np.uint8),
    }
    return BlockwiseExpansion(**(given | changes))  # type: ignore[arg-type]


def vector(bitwidth: int | None = 4, **changes: int) -> Vector:
    sizes = {
        "rows_per_block": 2,
        "columns_per_block": 6,
        "vector_dimension": 2,
        "vector_stride": 1,
        "index_bitwidth": 6,
    }
    return Vector(AxisScaleOffset(0, f32(1, 2), None, bitwidth), **(sizes | changes))


HALVES = EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO
TWO = np.ones((1, 2), np.float32)

FITS: list[Encoding] = [
    ScaleOffset(0.0),
    ScaleOffset(1.0, -(2**31), 8),
    AxisScaleOffset(1, f32(1, 2, 3, 4, 5, 6)),
    AxisScaleOffset(0, f32(1, 2), i32(3, 4), 1),
    Block((1, 3), np.ones((2, 2), np.float32)),
    Block((2, 6), np.ones((1, 1), np.float32), np.ones((1, 1), np.int32)),
    expansion(),
    expansion(offsets=i32(1, 2), block_scales=np.full((2, 1), 15, np.uint8)),
    FloatBlock((2, 3), TWO, TWO / 3),
    Mapped(expansion(), HALVES),
    Mapped(Block((2, 3), TWO, None, 2), EncodingMapping.ASYMMETRIC_PLUS_ONE),
    vector(),
    vector(index_bitwidth=32, vector_stride=2**32 - 1),
]


@pytest.mark.parametrize("encoding", FITS)
def test_what_fits_has_no_faults(encoding: Encoding) -> None:
    assert encoding.faults((2, 6), S8) == []


COMMON = [
    ([-1.0], None, S8, "a scale is negative or not finite"),
    ([float("nan")], None, S8, "a scale is negative or not finite"),
    ([float("inf")], None, S8, "a scale is negative or not finite"),
    ([1e39], None, S8, "a scale is negative or not finite"),  # no float32
    ([1.0], None, DType.INT_8, "INT_8 is not a fixed-point type and cannot have an encoding"),
    ([1.0], None, DType.FLOAT_32, "FLOAT_32 is not a fixed-point type and cannot have an encoding"),
    ([1.0], 9, S8, "bitwidth 9 does not fit SFIXED_POINT_8"),
    ([1.0], 5, U4, "bitwidth 5 does not fit UFIXED_POINT_4"),
    ([1.0], 0, S8, "bitwidth 0 does not fit SFIXED_POINT_8"),
]


@pytest.mark.parametrize(("scale", "bitwidth", "dtype", "fault"), COMMON)
def test_scales_types_and_bitwidths_of_every_class(
    scale: list[float], bitwidth: int | None, dtype: DType, fault: str
) -> None:
    scales = np.array(scale)
    made: list[Encoding] = [
        ScaleOffset(scale[0], 0, bitwidth),
        AxisScaleOffset(0, scales, None, bitwidth),
        Block((2,), scales, None, bitwidth),
        BlockwiseExpansion(1, scales, np.ones((1, 1), np.uint8), None, bitwidth),
        FloatBlock((2,), scales, f32(0), bitwidth),
    ]
    shapes = [(2,), (1,), (2,), (2, 1), (2,)]
    for encoding, shape in zip(made, shapes, strict=True):
        assert encoding.faults(shape, dtype) == [fault]


@pytest.mark.parametrize(
    ("encoding", "faults"),
    [
        (ScaleOffset(1.0, 2**31), ["offset 2147483648 does not fit 32 bits"]),
        (ScaleOffset(1.0, cast("int", -3.5)), ["an offset is not a whole number"]),
        (
            AxisScaleOffset(0, f32(1, 1), cast("Any", f32(1, 0.5))),
            ["an offset is not a whole number"],
        ),
        (
            Block((1, 6), f32(1, 1)[:, None], cast("Any", f32(1, 0.5)[:, None])),
            ["an offset is not a whole number"],
        ),
        (AxisScaleOffset(2, f32(1)), ["axis 2 is out of range for the shape (2, 6)"]),
        (AxisScaleOffset(-1, f32(*[1] * 6)), ["axis -1 is out of range for the shape (2, 6)"]),
        (
            AxisScaleOffset(0, f32(1, 2, 3), i32(1)),
            [
                "expected scales of shape (2,) for axis 0, got (3,)",
                "expected offsets of shape (2,) for axis 0, got (1,)",
            ],
        ),
        (
            AxisScaleOffset(0, np.ones((2, 3), np.float32), i32(1, 2)),
            ["expected scales of shape (2,) for axis 0, got (2, 3)"],
        ),
        (Block((2,), f32(1)), ["blocks of (2,) do not divide a tensor of shape (2, 6)"]),
        (Block((1, 4), f32(1)), ["blocks of (1, 4) do not divide a tensor of shape (2, 6)"]),
        (Block((0, 1), f32(1)), ["blocks of (0, 1) do not divide a tensor of shape (2, 6)"]),
        (
            Block((1, 3), f32(1, 2), np.zeros((1, 2), np.int32)),
            [
                "expected scales of shape (2, 2) for the blocks, got (2,)",
                "expected offsets of shape (2, 2) for the blocks, got (1, 2)",
            ],
        ),
        (expansion(axis=3), ["axis 3 is out of range for the shape (2, 6)"]),
        (
            expansion(rows=3, offsets=i32(1)),
            [
                "expected scales of shape (2,), got (3,)",
                "expected offsets of shape (2,), got (1,)",
                "expected block scales with 2 rows, got the shape (3, 3)",
            ],
        ),
        (
            expansion(block_scales=np.ones(2, np.uint8)),
            ["expected block scales with 2 rows, got the shape (2,)"],
        ),
        (expansion(blocks=4), ["4 blocks do not divide the 6 elements of a channel"]),
        (expansion(blocks=0), ["0 blocks do not divide the 6 elements of a channel"]),
        (
            expansion(block_scales=np.full((2, 4), 16, np.uint8)),
            [
                "4 blocks do not divide the 6 elements of a channel",
                "a block scale does not fit 4 bits",
            ],
        ),
        (
            FloatBlock((1, 3), f32(1, 2), np.full((2, 2), np.nan, np.float32)),
            [
                "an offset is not finite",
                "expected scales of shape (2, 2) for the blocks, got (2,)",
            ],
        ),
        (
            Mapped(AxisScaleOffset(0, f32(1)), HALVES),
            [
                "expected scales of shape (2,) for axis 0, got (1,)",
                "an encoding with a mapping needs a bitwidth",
            ],
        ),
        (vector(None), ["a vector encoding needs the bitwidth of its elements"]),
        (
            vector(9, rows_per_block=0, vector_stride=2**32, index_bitwidth=33),
            [
                "bitwidth 9 does not fit SFIXED_POINT_8",
                "rows per block must be positive and fit 32 bits, got 0",
                "vector stride must be positive and fit 32 bits, got 4294967296",
                "index bitwidth 33 is not between 1 and 32",
            ],
        ),
    ],
)
def test_lengths_axes_and_blocks(encoding: Encoding, faults: list[str]) -> None:
    assert encoding.faults((2, 6), S8) == faults
