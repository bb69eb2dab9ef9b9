"""`simulate`: an op's meaning on stored values, in all three domains."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    Scalar,
    ScaleOffset,
    Spec,
    dequantize,
    quantize,
)
from dovetail.ops import OpRegistry, from_real, simulate, to_real

F16, BF16, F32 = DType.FLOAT_16, DType.BFLOAT_16, DType.FLOAT_32
U8, S8, S16, I32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_16, DType.INT_32


def run(
    registry: OpRegistry,
    name: str,
    ins: list[Array | None],
    specs: list[Spec | None],
    outs: list[Spec],
    **params: int,
) -> tuple[Array, ...]:
    schema = registry.find("test.ops", name)
    bound = {k: Scalar(schema.params[k].dtypes[0], v) for k, v in params.items()}
    return simulate(schema, schema.bind(bound, specs), ins, specs, outs)


def same(got: Array, wanted: Array) -> None:
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_real_ops_see_real_values(registry: OpRegistry) -> None:
    x, out = Spec(U8, (3,), ScaleOffset(0.5, -10)), Spec(S16, (3,), ScaleOffset(0.25, 1))
    stored = np.array([0, 10, 255], np.uint8)  # -5, 0, 122.5
    (got,) = run(registry, "Scale", [stored], [x], [out], by=3)
    # times 3, over 0.25, minus 1
    same(got, np.array([-61, -1, 1469], np.int16))


def test_real_ops_saturate_at_the_outputs_range(registry: OpRegistry) -> None:
    x, out = Spec(U8, (2,), ScaleOffset(1.0)), Spec(S8, (2,), ScaleOffset(1.0))
    (got,) = run(registry, "Scale", [np.array([2, 200], np.uint8)], [x], [out], by=3)
    same(got, np.array([6, 127], np.int8))


def test_left_out_inputs_stay_left_out_and_mixed_types_meet_as_real(registry: OpRegistry) -> None:
    x, bias, out = Spec(U8, (2,), ScaleOffset(0.5)), Spec(F32, (2,)), Spec(F32, (2,))
    stored = np.array([1, 2], np.uint8)
    (got,) = run(registry, "Scale", [stored, None], [x, None], [out], by=2)
    same(got, np.array([1, 2], np.float32))
    ins: list[Array | None] = [stored, np.array([0.5, 0.25], np.float32)]
    (got,) = run(registry, "Scale", ins, [x, bias], [out], by=2)
    same(got, np.array([1.5, 2.25], np.float32))


def test_16_bit_floats_are_computed_as_float32(registry: OpRegistry) -> None:
    # 1 + 2**-10 times 3, over 3: a float16 in between would lose the last bit
    x = np.array([1.0009765625], np.float16)
    spec = Spec(F16, (1,))
    (three,) = run(registry, "Scale", [x], [spec], [Spec(F32, (1,))], by=3)
    same(three, np.array([3.0029296875], np.float32))
    big = np.array([60000], np.float16)
    (got,) = run(registry, "Scale", [big], [spec], [spec], by=2)
    same(got, np.array([np.inf], np.float16))  # quietly: infinity is a result


@given(values=npst.arrays(np.uint16, 8))
def test_bfloat16_in_and_out(registry: OpRegistry, values: np.ndarray) -> None:
    spec = Spec(BF16, (8,))
    (got,) = run(registry, "Scale", [values], [spec], [spec], by=3)
    real = values.view(ml_dtypes.bfloat16).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = (real * 3).astype(ml_dtypes.bfloat16)
    assert got.dtype == np.uint16
    # NumPy takes NaN for equal to NaN in its own types only
    got_real = got.view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(got_real, wanted.astype(np.float32))


@pytest.mark.parametrize("dtype", [F16, BF16, F32, U8, S16, I32], ids=lambda d: d.name)
def test_rank_0_stays_an_array(registry: OpRegistry, dtype: DType) -> None:
    encoding = ScaleOffset(0.5) if dtype.is_fixed_point else None
    spec = Spec(dtype, (), encoding)
    one = from_real(np.asarray(2.0, np.float32), spec)
    (got,) = run(registry, "Scale", [one], [spec], [spec], by=3)
    assert type(got) is np.ndarray
    assert (got.shape, got.dtype) == ((), dtype.storage)
    assert to_real(got, spec) == 6


INDICES = np.array([2, 0, 0], np.int32)
INDEX_SPEC = Spec(I32, (3,))


@pytest.mark.parametrize(
    ("dtype", "encoding"),
    [
        (U8, ScaleOffset(0.1, -3)),
        (DType.SFIXED_POINT_32, ScaleOffset(0.1)),
        (U8, None),
        (F16, None),
        (BF16, None),
        (DType.FLOAT_64, None),
        (I32, None),  # of the indices' own type
        (DType.BOOL_8, None),
    ],
)
def test_moves_keep_every_bit_where_the_encodings_agree(
    registry: OpRegistry, dtype: DType, encoding: Encoding | None
) -> None:
    bits = np.random.default_rng(0).integers(0, 256, 4 * dtype.storage.itemsize, np.uint8)
    stored = bits.view(dtype.storage) if dtype is not DType.BOOL_8 else bits > 127
    x, out = Spec(dtype, (4,), encoding), Spec(dtype, (3,), encoding)
    (got,) = run(registry, "Gather", [stored, INDICES], [x, INDEX_SPEC], [out])
    assert got.dtype == stored.dtype
    assert got.tobytes() == stored[INDICES].tobytes()


def test_moves_between_encodings_move_real_values(registry: OpRegistry) -> None:
    x, out = Spec(U8, (3,), ScaleOffset(0.5, -10)), Spec(U8, (3,), ScaleOffset(0.25, -20))
    stored = np.array([0, 10, 30], np.uint8)  # -5, 0, 10
    (got,) = run(registry, "Gather", [stored, INDICES], [x, INDEX_SPEC], [out])
    same(got, np.array([60, 0, 0], np.uint8))


@pytest.mark.parametrize("dtype", [F16, BF16, U8])
def test_moves_between_types_move_real_values(registry: OpRegistry, dtype: DType) -> None:
    spec = Spec(dtype, (3,), ScaleOffset(0.5) if dtype is U8 else None)
    real = np.array([1, 2, 4], np.float32)
    stored = from_real(real, spec)
    wide = Spec(F32, (3,))
    (got,) = run(registry, "Gather", [stored, INDICES], [spec, INDEX_SPEC], [wide])
    same(got, real[INDICES])
    (back,) = run(registry, "Gather", [got, INDICES], [wide, INDEX_SPEC], [spec])
    same(back, stored[INDICES][INDICES])


@given(stored=npst.arrays(np.uint8, (3, 2)), order=st.permutations(range(3)))
def test_moves_across_the_axis_of_an_encoding_requantize(
    registry: OpRegistry, stored: np.ndarray, order: list[int]
) -> None:
    """A stored integer means another value in another slice, though the encodings are equal."""
    encoding = AxisScaleOffset(0, np.array([0.5, 1, 2], np.float32))
    spec = Spec(U8, (3, 2), encoding)
    indices = np.array(order, np.int32)
    (got,) = run(registry, "Gather", [stored, indices], [spec, INDEX_SPEC], [spec])
    wanted = quantize(dequantize(stored, encoding)[indices], encoding, U8)
    same(got, wanted)


def test_joining_different_encodings(registry: OpRegistry) -> None:
    a, b = Spec(U8, (1,), ScaleOffset(1.0)), Spec(U8, (2,), ScaleOffset(0.5, -4))
    out = Spec(U8, (3,), ScaleOffset(0.5))
    ins: list[Array | None] = [np.array([3], np.uint8), np.array([4, 20], np.uint8)]
    (got,) = run(registry, "Join", ins, [a, b], [out])
    same(got, np.array([6, 0, 16], np.uint8))


def test_stored_ops_see_stored_values_and_may_leave_outputs_out(registry: OpRegistry) -> None:
    x = Spec(U8, (2,), ScaleOffset(0.5, -10))
    outs = [Spec(I32, (2,)), Spec(I32, ())]
    stored = np.array([7, 200], np.uint8)
    both = run(registry, "Bits", [stored], [x], outs)
    assert [o.tolist() for o in both] == [[7, 200], 1]
    assert [o.tolist() for o in run(registry, "Bits", [stored], [x], outs[:1])] == [[7, 200]]


def test_a_reference_that_gives_another_shape_is_a_bug_of_the_op(registry: OpRegistry) -> None:
    x, wrong = Spec(F32, (2,)), Spec(F32, (5,))
    with pytest.raises(AssertionError, match=r"reference returned \(2,\), infer \(5,\)"):
        run(registry, "Scale", [np.ones(2, np.float32)], [x], [wrong], by=1)


@pytest.mark.parametrize("given", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("dtype", [d for d in DType if d.is_int])
def test_integers_saturate_and_nan_is_0(dtype: DType, given: type) -> None:
    low, high = dtype.stored_range()
    real = np.array([np.nan, np.inf, -np.inf, 2.75, -0.5], given)
    wanted = np.array([0, high, low, 2, 0], dtype.storage)
    same(from_real(real, Spec(dtype, (5,))), wanted)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [d for d in DType if d.is_int])
def test_floats_at_the_ends_of_integers(dtype: DType, given: type) -> None:
    low, high = dtype.stored_range()
    for end in (low - 1, low - 0.5, low, high, high + 0.5, high + 1):
        for value in (given(end), np.nextafter(given(end), given(0))):
            wanted = np.array([min(max(int(value), low), high)], dtype.storage)
            same(from_real(np.array([value]), Spec(dtype, (1,))), wanted)


def test_wide_integers_saturate() -> None:
    real = np.array([2**32 + 1, -(2**40), -7])
    same(from_real(real, Spec(I32, (3,))), np.array([2**31 - 1, -(2**31), -7], np.int32))
    same(from_real(real, Spec(DType.UINT_8, (3,))), np.array([255, 0, 0], np.uint8))
    large = np.array([2**64 - 1], np.uint64)
    same(from_real(large, Spec(DType.INT_64, (1,))), np.array([2**63 - 1]))
    edge = np.array([2.0**63, -(2.0**63)])
    same(from_real(edge, Spec(DType.INT_64, (2,))), np.array([2**63 - 1, -(2**63)]))


@pytest.mark.parametrize("dtype", [U8, S8, S16, DType.SFIXED_POINT_32])
def test_nan_is_quantized_to_the_zero_point(dtype: DType) -> None:
    real = np.array([np.nan, np.inf, -np.inf], np.float32)
    low, high = dtype.stored_range()
    out = from_real(real, Spec(dtype, (3,), ScaleOffset(0.5, -3)))
    same(out, np.array([3, high, low], dtype.storage))
