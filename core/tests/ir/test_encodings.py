"""Quantizing and dequantizing under every encoding, against the formulas written out."""

from __future__ import annotations

import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import QuantizationError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    EncodingKind,
    EncodingMapping,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Spec,
    Vector,
    dequantize,
    quantize,
)

U4, S4 = DType.UFIXED_POINT_4, DType.SFIXED_POINT_4
U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
U32, S32 = DType.UFIXED_POINT_32, DType.SFIXED_POINT_32
HALVES = EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO

scales = st.floats(2.0**-20, 2.0**20, width=32)
reals = st.floats(-(2.0**20), 2.0**20, width=32)


def stored_of(real: float, scale: float, offset: float, dtype: DType) -> int:
    """The definition; Python's round is half to even.

    The quotient is exact for 32 bits, else a float32.
    """
    low, high = dtype.stored_range()
    exact = Fraction(real) / Fraction(scale)
    steps = exact if dtype.bits == 32 else Fraction(float(np.float32(real) / np.float32(scale)))
    return min(max(round(steps) - int(offset), low), high)


def test_kinds_are_qnns() -> None:
    one = np.ones(1, np.float32)
    made: list[tuple[Encoding, int]] = [
        (ScaleOffset(1.0), 0),
        (AxisScaleOffset(0, one), 1),
        (ScaleOffset(1.0, bitwidth=4), 2),
        (AxisScaleOffset(0, one, bitwidth=4), 3),
        (Block((1,), one), 4),
        (BlockwiseExpansion(0, one, np.ones((1, 1), np.uint8)), 5),
        (Vector(AxisScaleOffset(0, one, bitwidth=4), 1, 1, 2, 1, 6), 6),
        (FloatBlock((1,), one, one), 7),
        (Mapped(AxisScaleOffset(0, one, bitwidth=4), HALVES), 8),
        (Mapped(Block((1,), one, bitwidth=4), HALVES), 9),
        (Mapped(BlockwiseExpansion(0, one, np.ones((1, 1), np.uint8)), HALVES), 10),
        (FloatBlock((1,), one, one, 4), 11),
    ]
    assert [int(e.kind) for e, _ in made] == [number for _, number in made]
    assert len(EncodingKind) == 12
    assert [(m.name, m.value) for m in EncodingMapping] == [
        ("STANDARD_SYMMETRIC", 0),
        ("ASYMMETRIC_PLUS_ONE", 1),
        ("LINEAR_SYMMETRIC_EXCLUDE_ZERO", 2),
    ]


@pytest.mark.parametrize("dtype", [U4, S4, U8, S8, U16, S16, U32, S32], ids=lambda d: d.name)
@given(real=reals, scale=scales, data=st.data())
def test_quantize_is_the_definition(
    dtype: DType, real: float, scale: float, data: st.DataObject
) -> None:
    low, high = dtype.stored_range()
    offset = data.draw(st.integers(max(-high, -(2**31)), min(-low, 2**31 - 1)))
    got = quantize(np.array([real], np.float32), ScaleOffset(scale, offset), dtype)
    assert got.dtype == dtype.storage
    assert got.tolist() == [stored_of(real, scale, offset, dtype)]


@pytest.mark.parametrize(
    ("dtype", "real", "in_float32"),
    [(U8, np.float32, True), (S16, np.float32, True), (U8, np.float64, False),
     (S32, np.float32, False)],
)  # fmt: skip
def test_quotients_are_float32_as_in_onnx(
    dtype: DType, real: type[np.floating], in_float32: bool
) -> None:
    """Twice the step of the data is a common scale; more float32 quotients are halves."""
    x, scale = np.arange(256, dtype=np.float32) / 255, np.float32(2 / 255)
    single, double = np.rint(x / scale), np.rint(x.astype(np.float64) / np.float64(scale))
    assert (single != double).sum() == 32
    stored = quantize(x.astype(real), ScaleOffset(float(scale)), dtype)
    np.testing.assert_array_equal(stored, single if in_float32 else double)


def test_half_floats_are_divided_as_float32() -> None:
    x = np.linspace(-6, 6, 999, dtype=np.float16)
    one, other = (quantize(x.astype(t), ScaleOffset(0.1), S8) for t in (np.float16, np.float32))
    np.testing.assert_array_equal(one, other)
    assert (one != np.rint(x / np.float16(0.1))).any()


@given(
    dtype=st.sampled_from([U8, S8, U16, S16]),
    scale=scales,
    data=st.data(),
)
def test_dequantize_is_the_definition_rounded_once(
    dtype: DType, scale: float, data: st.DataObject
) -> None:
    low, high = dtype.stored_range()
    q, offset = data.draw(st.integers(low, high)), data.draw(st.integers(-high, -low))
    got = dequantize(np.array([q], dtype.storage), ScaleOffset(scale, offset))
    assert got.dtype == np.float32
    # a product of 17 and 24 bits is exact in a float64
    assert got.tolist() == [float(np.float32((q + offset) * scale))]


def test_a_mapping_without_zero_has_levels_halfway_between_integers() -> None:
    encoding = Mapped(AxisScaleOffset(0, np.array([0.5, 2], np.float32), None, 2), HALVES)
    stored = np.array([[-2, -1, 0, 1]] * 2, np.int8)
    levels = [[-0.75, -0.25, 0.25, 0.75], [-3.0, -1.0, 1.0, 3.0]]
    assert dequantize(stored, encoding).tolist() == levels
    real = np.array([[-9, -0.3, 0.3, 0.6], [-1.9, -0.1, 0.1, 9]], np.float32)
    # the nearest level; between -1 and 1 it is the one of the same sign
    assert quantize(real, encoding, S8).tolist() == [[-2, -1, 0, 1], [-1, -1, 0, 1]]
    np.testing.assert_array_equal(quantize(np.float32(levels), encoding, S8), stored)
    assert quantize(np.full((2, 1), np.nan), encoding, S8).tolist() == [[0], [0]]


def test_the_standard_mapping_changes_nothing() -> None:
    base = AxisScaleOffset(0, np.array([0.5, 2], np.float32), np.array([-1, 3], np.int32), 4)
    encoding = Mapped(base, EncodingMapping.STANDARD_SYMMETRIC)
    real = np.linspace(-9, 9, 38, dtype=np.float32).reshape(2, 19)
    stored = quantize(real, base, S8)
    np.testing.assert_array_equal(quantize(real, encoding, S8), stored)
    np.testing.assert_array_equal(dequantize(stored, encoding), dequantize(stored, base))


@pytest.mark.parametrize(
    "encoding",
    [
        Mapped(
            AxisScaleOffset(0, np.ones(2, np.float32), None, 4), EncodingMapping.ASYMMETRIC_PLUS_ONE
        ),
        Vector(AxisScaleOffset(0, np.ones(2, np.float32), None, 4), 1, 1, 2, 1, 6),
    ],
    ids=["plus one", "vector"],
)
def test_what_has_no_known_values_is_refused(encoding: Encoding) -> None:
    assert not encoding.is_convertible
    assert encoding.faults((2, 3), S8) == []
    with pytest.raises(QuantizationError, match="cannot be converted"):
        quantize(np.zeros((2, 3), np.float32), encoding, S8)
    with pytest.raises(QuantizationError, match="cannot be converted"):
        dequantize(np.zeros((2, 3), np.int8), encoding)


@given(real=reals, scale=scales, offset=st.floats(-100, 100, width=32))
def test_fractions_of_offsets_are_subtracted_before_rounding(
    real: float, scale: float, offset: float
) -> None:
    encoding = FloatBlock((1,), np.array([scale], np.float32), np.array([offset], np.float32))
    [got] = quantize(np.array([real], np.float32), encoding, S8).tolist()
    exact = Fraction(real) / Fraction(scale) - Fraction(offset)
    # within half a step, but for what the float64 quotient loses
    assert abs(min(max(exact, -128), 127) - got) <= Fraction(1, 2) + Fraction(1, 2**20)
    [back] = dequantize(np.array([got], np.int8), encoding).tolist()
    assert back == pytest.approx((got + offset) * scale, rel=2.0**-22, abs=2.0**-17 * scale)


def test_half_goes_to_even() -> None:
    real = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert quantize(real, ScaleOffset(1.0), S8).tolist() == [-2, -2, 0, 0, 2, 2]
    # to an even number of steps, before the offset is taken off
    assert quantize(real, ScaleOffset(1.0, 1), S8).tolist() == [-3, -3, -1, -1, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "bitwidth", "low", "high"),
    [(U8, None, 0, 255), (S8, None, -128, 127), (S8, 4, -8, 7), (U16, 12, 0, 4095)],
)
def test_what_is_out_of_range_is_clamped(
    dtype: DType, bitwidth: int | None, low: int, high: int
) -> None:
    real = np.array([-np.inf, -1e30, 1e30, np.inf], np.float32)
    got = quantize(real, ScaleOffset(0.1, 0, bitwidth), dtype)
    assert got.tolist() == [low, low, high, high]


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (70_000,), (3, 40_000)])
def test_long_tensors_and_given_places_make_no_difference(shape: tuple[int, ...]) -> None:
    """Long tensors are quantized in pieces; every second element of a larger array is a place."""
    rng = np.random.default_rng(1)
    real = np.asarray(rng.normal(0, 30, shape), np.float32)
    real.reshape(-1)[::997] = np.nan
    real.reshape(-1)[1::997] = np.inf
    encoding = ScaleOffset(0.25, -120)
    whole = np.clip(np.nan_to_num(np.rint(real.astype(float) / 0.25) + 120, nan=120), 0, 255)
    room = np.full((*shape, 2), 0x55, np.uint8)
    stored = [np.full(shape, 0x55, np.uint8), room[..., 0]]
    for out in stored:
        assert quantize(real, encoding, U8, out) is out
        np.testing.assert_array_equal(out, whole)
    assert (room[..., 1] == 0x55).all()
    np.testing.assert_array_equal(quantize(np.flip(real), encoding, U8), np.flip(whole))
    for dtype in (np.uint8, np.int32):
        out = np.full(shape, np.nan, np.float32)
        assert dequantize(stored[0].astype(dtype), encoding, out) is out
        np.testing.assert_array_equal(out, (whole - 120) * 0.25)


def test_nan_becomes_the_zero_point() -> None:
    assert quantize(np.array([np.nan]), ScaleOffset(0.1, -7), U8).tolist() == [7]
    per_axis = AxisScaleOffset(0, np.ones(2, np.float32), np.array([-1, -2], np.int32))
    assert quantize(np.full((2, 1), np.nan), per_axis, U8).tolist() == [[1], [2]]


def test_a_scale_of_0_knows_only_the_zero_point() -> None:
    encoding = AxisScaleOffset(0, np.array([0, 1], np.float32), np.array([-3, -3], np.int32))
    real = np.array([[-1, 0, 5, np.inf, np.nan]] * 2, np.float32)
    stored = quantize(real, encoding, U8)
    assert stored.tolist() == [[3, 3, 3, 3, 3], [2, 3, 8, 255, 3]]
    assert dequantize(stored, encoding)[0].tolist() == [0] * 5


@pytest.mark.parametrize("dtype", [U32, S32], ids=lambda d: d.name)
def test_32_bit_integers_keep_all_their_digits(dtype: DType) -> None:
    low, high = dtype.stored_range()
    # an offset, too, may have more digits than a float32
    offset = -(2**30 + 2**24 + 1)
    stored = np.array([low, 1 - offset, high], dtype.storage)
    got = dequantize(stored, ScaleOffset(1.0, offset))
    assert got.tolist() == [float(np.float32(int(q) + offset)) for q in stored]
    assert got[1] == 1.0
    near = np.array([1.0, 3.0, 1e12], np.float32)
    wanted = [-offset + 1, -offset + 3, high]
    assert quantize(near, ScaleOffset(1.0, offset), dtype).tolist() == wanted


def test_real_values_beyond_float32_are_infinite() -> None:
    assert dequantize(np.array([255], np.uint8), ScaleOffset(3e38)).tolist() == [math.inf]
    assert dequantize(np.array([-255], np.int32), ScaleOffset(3e38)).tolist() == [-math.inf]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_every_shape_stays_an_array_of_its_shape(shape: tuple[int, ...]) -> None:
    real = np.full(shape, 0.5, np.float32)
    stored = quantize(real, ScaleOffset(0.25), S8)
    back = dequantize(stored, ScaleOffset(0.25))
    assert type(stored) is type(back) is np.ndarray
    assert stored.shape == back.shape == shape
    np.testing.assert_array_equal(back, real)


def scale_and_offset(encoding: Encoding, index: tuple[int, ...]) -> tuple[float, float]:
    """Scale and offset of one element of a (2, 4, 6) tensor, written out for each class."""
    match encoding:
        case AxisScaleOffset(axis, scales_, offsets):
            return float(scales_[index[axis]]), 0 if offsets is None else int(offsets[index[axis]])
        case Block(sizes, scales_, offsets):
            block = tuple(i // b for i, b in zip(index, sizes, strict=True))
            return float(scales_[block]), 0 if offsets is None else int(offsets[block])
        case FloatBlock(sizes, scales_, offsets):
            block = tuple(i // b for i, b in zip(index, sizes, strict=True))
            return float(scales_[block]), float(offsets[block])
        case BlockwiseExpansion(axis, scales_, factors, offsets):
            rest = [i for a, i in enumerate(index) if a != axis]
            extents = [n for a, n in enumerate((2, 4, 6)) if a != axis]
            place = rest[0] * extents[1] + rest[1]
            block_elements = extents[0] * extents[1] // factors.shape[1]
            channel = index[axis]
            factor = int(factors[channel, place // block_elements])
            scale = float(np.float32(scales_[channel] * np.float32(factor)))
            return scale, 0 if offsets is None else int(offsets[channel])
    raise AssertionError(encoding)


def with_arrays(seed: int) -> list[Encoding]:
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> np.ndarray:
        return rng.uniform(0.01, 2, shape).astype(np.float32)

    def offsets(*shape: int) -> np.ndarray:
        return rng.integers(-9, 0, shape, np.int32)

    factors = rng.integers(1, 16, (4, 3), np.uint8)
    return [
        AxisScaleOffset(1, some(4)),
        AxisScaleOffset(2, some(6), offsets(6)),
        Block((1, 2, 3), some(2, 2, 2)),
        Block((2, 1, 6), some(1, 4, 1), offsets(1, 4, 1)),
        BlockwiseExpansion(1, some(4), factors, bitwidth=None),
        BlockwiseExpansion(1, some(4), factors, offsets(4), bitwidth=None),
        BlockwiseExpansion(0, some(2), rng.integers(1, 16, (2, 8), np.uint8), bitwidth=None),
        FloatBlock((1, 2, 3), some(2, 2, 2), offsets(2, 2, 2).astype(np.float32)),
    ]


@pytest.mark.parametrize("which", range(8))
def test_each_element_has_the_scale_and_offset_of_its_place(which: int) -> None:
    encoding = with_arrays(which)[which]
    rng = np.random.default_rng(which + 100)
    real = rng.uniform(-20, 20, (2, 4, 6)).astype(np.float32)
    stored = quantize(real, encoding, S8)
    back = dequantize(stored, encoding)
    assert encoding.faults((2, 4, 6), S8) == []
    for index in itertools.product(range(2), range(4), range(6)):
        scale, offset = scale_and_offset(encoding, index)
        assert stored[index] == stored_of(float(real[index]), scale, offset, S8)
        assert back[index] == np.float32((int(stored[index]) + offset) * scale)


def test_4_bit_expansion_narrows_to_its_bitwidth() -> None:
    encoding = BlockwiseExpansion(0, np.ones(1, np.float32), np.array([[1, 2]], np.uint8))
    real = np.array([[100, -100, 100, 3]], np.float32)
    assert quantize(real, encoding, S8).tolist() == [[7, -8, 7, 2]]


def test_encodings_compare_by_content() -> None:
    narrow, wide = np.array([0.5, 0.0], np.float32), np.array([0.5, -0.0])
    zeros = np.zeros(2, np.int32)
    same = [
        (AxisScaleOffset(0, narrow), AxisScaleOffset(0, wide, zeros)),
        (Block((1,), narrow), Block((1,), wide, zeros)),
        (
            BlockwiseExpansion(0, narrow, np.ones((2, 1), np.uint8)),
            BlockwiseExpansion(0, wide, np.ones((2, 1), np.uint16), zeros),
        ),
        (FloatBlock((1,), narrow, zeros), FloatBlock((1,), wide, -0.0 * narrow)),
        (Mapped(AxisScaleOffset(0, narrow), HALVES), Mapped(AxisScaleOffset(0, wide), HALVES)),
    ]
    for one, other in same:
        assert operator.eq(one, other)
        assert not operator.ne(one, other)  # a Struct has an operator of its own
        spec, twin = (Spec(S8, (2, 1), encoding) for encoding in (one, other))
        assert operator.eq(spec, twin)
        assert not operator.ne(spec, twin)
        assert hash(one) == hash(other)
    different = [e for pair in same for e in pair[:1]] + [
        ScaleOffset(0.5),
        AxisScaleOffset(1, narrow),
        AxisScaleOffset(0, narrow, bitwidth=4),
        AxisScaleOffset(0, narrow, np.array([0, 1], np.int32)),
        AxisScaleOffset(0, narrow[:1]),
        Block((2,), narrow),
        FloatBlock((1,), narrow, zeros + 0.5),
        Mapped(AxisScaleOffset(0, narrow), EncodingMapping.STANDARD_SYMMETRIC),
        Mapped(AxisScaleOffset(1, narrow), HALVES),
        BlockwiseExpansion(0, narrow, np.full((2, 1), 2, np.uint8)),
        BlockwiseExpansion(0, narrow, np.ones((2, 1), np.uint8), block_scale_bitwidth=8),
    ]
    for one, other in itertools.combinations(different, 2):
        assert operator.ne(one, other)
        assert not operator.eq(one, other)
