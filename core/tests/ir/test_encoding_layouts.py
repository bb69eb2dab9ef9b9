"""Encodings travel with their values: quantizing commutes with every layout change, or refuses."""

from __future__ import annotations

import math

import msgspec
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
    EncodingMapping,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Shape,
    Vector,
    dequantize,
    quantize,
)

S8 = DType.SFIXED_POINT_8
MAPPINGS = [EncodingMapping.STANDARD_SYMMETRIC, EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO]


@st.composite
def encoded(draw: st.DrawFn) -> tuple[np.ndarray, Encoding]:
    """Return real values and an encoding that fits them; all scales differ from each other."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3, 4]), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))

    def some(*extents: int) -> np.ndarray:
        return rng.permutation(np.linspace(0.1, 3, math.prod(extents), dtype=np.float32)).reshape(
            extents
        )

    def offsets(*extents: int) -> np.ndarray | None:
        return rng.integers(-9, 9, extents, np.int32) if draw(st.booleans()) else None

    axis = draw(st.integers(0, len(shape) - 1))
    count = shape[axis]
    real = rng.uniform(-200, 200, shape).astype(np.float32)
    kind = draw(st.sampled_from(["tensor", "axis", "block", "expansion", "float block"]))
    mapping = draw(st.none() | st.sampled_from(MAPPINGS))

    def mapped(encoding: AxisScaleOffset | Block | BlockwiseExpansion) -> Encoding:
        if mapping is None:
            return encoding
        return Mapped(msgspec.structs.replace(encoding, bitwidth=8), mapping)

    match kind:
        case "tensor":
            return real, ScaleOffset(0.7, draw(st.integers(-9, 9)))
        case "axis":
            return real, mapped(AxisScaleOffset(axis, some(count), offsets(count)))
        case "block" | "float block":
            sizes = tuple(draw(st.sampled_from([d for d in (1, n) if n % d == 0])) for n in shape)
            blocks = tuple(n // b for n, b in zip(shape, sizes, strict=True))
            if kind == "float block":
                fractions = rng.uniform(-9, 9, blocks).astype(np.float32)
                return real, FloatBlock(sizes, some(*blocks), fractions)
            return real, mapped(Block(sizes, some(*blocks), offsets(*blocks)))
        case _:
            each = real.size // count
            blocks = draw(st.sampled_from([d for d in range(1, each + 1) if each % d == 0]))
            factors = rng.integers(1, 16, (count, blocks), np.uint8)
            expansion = BlockwiseExpansion(axis, some(count), factors, offsets(count), None)
            return real, mapped(expansion)


@given(case=encoded(), data=st.data())
def test_transposing_commutes_or_is_refused(
    case: tuple[np.ndarray, Encoding], data: st.DataObject
) -> None:
    real, encoding = case
    perm = tuple(data.draw(st.permutations(range(real.ndim))))
    try:
        moved = encoding.transposed(perm)
    except QuantizationError:
        expansion = encoding.base if isinstance(encoding, Mapped) else encoding
        assert isinstance(expansion, BlockwiseExpansion)
        rest = [p for p in perm if p != expansion.axis]
        assert rest != sorted(rest)
        return
    assert moved.faults(real.transpose(perm).shape, S8) == []
    stored = quantize(real, encoding, S8).transpose(perm)
    np.testing.assert_array_equal(quantize(real.transpose(perm), moved, S8), stored)
    inverse = tuple(int(p) for p in np.argsort(perm))
    before = dequantize(stored.transpose(inverse), encoding)
    np.testing.assert_array_equal(dequantize(stored, moved), before.transpose(perm))
    assert moved.transposed(inverse) == encoding


def factorizations(count: int) -> st.SearchStrategy[Shape]:
    """Shapes of `count` elements, with extents of 1 anywhere."""

    @st.composite
    def shapes(draw: st.DrawFn) -> Shape:
        left, extents = count, []
        for _ in range(draw(st.integers(0, 4))):
            extents.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
            left //= extents[-1]
        return (*extents, left)

    return shapes()


@given(case=encoded(), data=st.data())
def test_reshaping_commutes_or_is_refused(
    case: tuple[np.ndarray, Encoding], data: st.DataObject
) -> None:
    real, encoding = case
    new = data.draw(factorizations(real.size))
    try:
        moved = encoding.reshaped(real.shape, new)
    except QuantizationError:
        assert real.shape != new
        return
    assert moved.faults(new, S8) == []
    stored = quantize(real, encoding, S8).reshape(new)
    np.testing.assert_array_equal(quantize(real.reshape(new), moved, S8), stored)


@pytest.mark.parametrize(
    ("old", "axis", "new", "wanted"),
    [
        ((1, 3, 1), 1, (3, 1, 1), 0),
        ((3, 1, 1), 0, (1, 1, 3), 2),
        ((2, 3), 1, (2, 1, 3), 2),
        ((2, 3), 1, (1, 2, 3, 1), 2),
        ((3, 3), 0, (3, 1, 3), 0),
        ((3, 3), 1, (1, 3, 3), 2),
        ((3, 3, 3), 1, (3, 3, 1, 3), 1),
        ((2, 3, 4), 1, (2, 3, 2, 2), 1),
        ((2, 3, 4), 2, (6, 4), 1),
        ((2, 2, 3), 2, (4, 3, 1), 1),
        ((4, 2), 0, (4, 2), 0),
        ((2, 1, 2), 1, (1, 2, 1, 2), 2),
        ((0, 3), 1, (0, 1, 3), 2),
    ],
)
def test_an_axis_is_found_by_the_elements_before_it(
    old: Shape, axis: int, new: Shape, wanted: int
) -> None:
    scales = np.linspace(1, 2, old[axis], dtype=np.float32)
    assert AxisScaleOffset(axis, scales).reshaped(old, new).axis == wanted


@pytest.mark.parametrize(
    ("old", "axis", "new"),
    [
        ((2, 3), 1, (3, 2)),  # same extents, other elements
        ((2, 3), 0, (6,)),
        ((4, 3), 0, (2, 2, 3)),
        ((2, 2), 0, (4,)),
        ((2, 3, 4), 1, (2, 12)),
        ((2, 3, 2), 2, (2, 2, 3)),
    ],
)
def test_an_axis_that_is_split_or_merged_is_refused(old: Shape, axis: int, new: Shape) -> None:
    encoding = AxisScaleOffset(axis, np.ones(old[axis], np.float32))
    with pytest.raises(QuantizationError, match=f"splits or merges axis {axis}") as caught:
        encoding.reshaped(old, new)
    assert caught.value.code == "ENCODING_INVALID"


def test_blocks_stay_whole() -> None:
    block = Block((1, 2), np.ones((2, 2), np.float32))
    expansion = BlockwiseExpansion(0, np.ones(2, np.float32), np.ones((2, 2), np.uint8))
    vector = Vector(AxisScaleOffset(0, np.ones(2, np.float32), None, 4), 2, 4, 2, 1, 6)
    fractions = FloatBlock((1, 2), np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    for encoding in (block, expansion, vector, fractions):
        assert encoding.reshaped((2, 4), (2, 4)) is encoding
        with pytest.raises(QuantizationError, match="would cut"):
            encoding.reshaped((2, 4), (4, 2))
    with pytest.raises(QuantizationError, match="mixes blocks"):
        expansion.transposed((0, 2, 1))
    assert expansion.transposed((1, 0, 2)).axis == 1


def test_vectors_stay_where_they_are() -> None:
    vector = Vector(AxisScaleOffset(0, np.ones(2, np.float32), None, 4), 2, 4, 2, 1, 6)
    assert vector.transposed((0, 1)) is vector
    with pytest.raises(QuantizationError, match="would cut the vectors"):
        vector.transposed((1, 0))
