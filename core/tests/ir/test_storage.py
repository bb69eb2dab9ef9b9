"""Blobs, and the packing of values into their stored form and back."""

from __future__ import annotations

import copy
import hashlib
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dovetail.errors import GraphError
from dovetail.ir import Array, Blob, DType, Scalar, Tensor, pack, unpack
from dovetail.ir.storage import bfloat16_to_float32, float32_to_bfloat16, unpack_stored

SIGNED, UNSIGNED = DType.SFIXED_POINT_4, DType.UFIXED_POINT_4


def test_two_4_bit_values_share_a_byte_the_first_one_low() -> None:
    assert pack(np.array([0x1, 0xA, 0xF]), UNSIGNED).bytes.tolist() == [0xA1, 0x0F]
    assert pack(np.array([-1, 7, -8]), SIGNED).bytes.tolist() == [0x7F, 0x08]


@given(
    values=npst.arrays(
        np.int8, npst.array_shapes(min_dims=0, min_side=0), elements=st.integers(-8, 7)
    )
)
def test_signed_4_bit_values_come_back(values: np.ndarray) -> None:
    blob = pack(values, SIGNED)
    assert blob.nbytes == (values.size + 1) // 2
    back = unpack(blob, SIGNED, values.shape)
    assert (back.dtype, back.shape) == (np.int8, values.shape)
    np.testing.assert_array_equal(back, values)


def test_every_unsigned_4_bit_value_comes_back() -> None:
    values = np.arange(17, dtype=np.uint8).reshape(1, 17) % 16
    np.testing.assert_array_equal(unpack(pack(values, UNSIGNED), UNSIGNED, (1, 17)), values)


PLAIN = [d for d in DType if d.is_int or (d.is_float and d is not DType.BFLOAT_16)]


@pytest.mark.parametrize("dtype", [*PLAIN, DType.BOOL_8], ids=lambda d: d.name)
@given(data=st.data())
def test_plain_values_are_stored_as_they_are(dtype: DType, data: st.DataObject) -> None:
    shapes = npst.array_shapes(min_dims=0, min_side=0, max_side=4)
    values = data.draw(npst.arrays(dtype.storage, shapes))
    blob = pack(values, dtype)
    assert blob.bytes.tobytes() == values.tobytes()
    back = unpack(blob, dtype, values.shape)
    assert (back.dtype, back.shape) == (values.dtype, values.shape)
    assert back.tobytes() == values.tobytes()  # NaN payloads too


def test_unpacking_does_not_copy_what_is_stored_as_it_is() -> None:
    blob = pack(np.arange(6, dtype=np.float32), DType.FLOAT_32)
    assert np.shares_memory(unpack(blob, DType.FLOAT_32, (2, 3)), blob.bytes)


def test_a_transposed_array_is_stored_in_c_order() -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3).T
    np.testing.assert_array_equal(unpack(pack(values, DType.INT_16), DType.INT_16, (3, 2)), values)


@pytest.mark.parametrize("texts", [["a", "", "größer"], [], [""]])
def test_texts_come_back(texts: list[str]) -> None:
    back = unpack(pack(np.array(texts, np.str_), DType.STRING), DType.STRING, (len(texts),))
    assert back.dtype.kind == "U"
    assert back.tolist() == texts


def test_every_bfloat16_widens_to_the_number_it_is() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    np.testing.assert_array_equal(
        bfloat16_to_float32(bits), bits.view(ml_dtypes.bfloat16).astype(np.float32)
    )


@given(bits=npst.arrays(np.uint32, 64))
def test_rounding_to_bfloat16_is_to_the_nearest_and_half_to_even(bits: np.ndarray) -> None:
    values = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN, on some processors
        mine, theirs = float32_to_bfloat16(values), values.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(mine[number], theirs.view(np.uint16)[number])
    assert np.isnan(bfloat16_to_float32(mine)[~number]).all()


def test_rounding_to_bfloat16_at_ties_and_ends() -> None:
    given_bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF800000, 0x00000001]
    #             tie to even ^ down, up;     above a tie; overflow to inf; -inf; to 0
    wanted = [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80, 0x0000]
    values = np.array(given_bits, np.uint32).view(np.float32)
    assert float32_to_bfloat16(values).tolist() == wanted
    nan = np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)  # rounding up would wrap
    assert np.isnan(bfloat16_to_float32(float32_to_bfloat16(nan))).all()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_bfloat16_keeps_every_shape(shape: tuple[int, ...]) -> None:
    values = np.full(shape, 1.5, np.float32)
    bits = float32_to_bfloat16(values)
    assert (bits.shape, bits.dtype) == (shape, np.uint16)
    assert bfloat16_to_float32(bits).shape == shape
    back = Tensor.static("t", values, DType.BFLOAT_16)
    assert (back.values().shape, back.values().dtype) == (shape, np.float32)
    assert (back.stored().shape, back.stored().dtype) == (shape, np.uint16)
    np.testing.assert_array_equal(back.values(), values)


def test_bfloat16_of_what_no_float32_holds_is_infinite() -> None:
    assert float32_to_bfloat16(np.array([1e39, -1e300])).tolist() == [0x7F80, 0xFF80]


@given(data=st.binary(max_size=100))
def test_the_hash_is_sha_256_of_the_bytes(data: bytes) -> None:
    assert Blob(np.frombuffer(data, np.uint8)).hash == hashlib.sha256(data).hexdigest()


def test_equal_bytes_of_other_types_have_one_hash() -> None:
    values = np.array([[1, 2], [3, 4]], np.int32)
    assert Blob(values).hash == Blob(values.view(np.uint8)).hash == Blob(values.reshape(4)).hash


def test_a_blob_cannot_be_written_through_and_leaves_its_source_alone() -> None:
    source = np.zeros(4, np.uint8)
    blob = Blob(source)
    with pytest.raises(ValueError, match="read-only"):
        blob.bytes[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        unpack_stored(blob, DType.UINT_8, (4,))[0] = 1
    source[0] = 1  # the caller's array is still theirs


def test_a_blob_is_checked_once_and_before_its_first_use() -> None:
    calls = []
    blob = Blob(np.zeros(4, np.uint8), hash="known", check=lambda: calls.append(1))
    assert (blob.nbytes, blob.hash) == (4, "known")
    assert calls == []
    assert blob.bytes.size + blob.bytes.size == 8
    assert calls == [1]


def test_a_damaged_blob_is_refused_every_time() -> None:
    def refuse() -> None:
        raise OSError("damaged")

    blob = Blob(np.zeros(4, np.uint8), check=refuse)
    for _ in range(2):
        with pytest.raises(OSError, match="damaged"):
            _ = blob.hash


def test_a_tensor_without_data_has_no_values() -> None:
    tensor = Tensor("t", DType.FLOAT_32, (2,))
    for read in (tensor.values, tensor.stored):
        with pytest.raises(ValueError, match="tensor t has no data"):
            read()


def test_a_tensor_keeps_its_source_name() -> None:
    assert Tensor("t", DType.INT_8, ()).source == "t"
    assert Tensor("t", DType.INT_8, (), source="s").source == "s"


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        (DType.UINT_8, 255, True),
        (DType.UINT_8, 256, False),
        (DType.UINT_32, -1, False),
        (DType.INT_8, np.int64(-128), True),
        (DType.INT_32, 1.0, False),
        (DType.INT_32, "1", False),
        (DType.FLOAT_32, 1, True),
        (DType.FLOAT_32, float("nan"), True),
        (DType.FLOAT_32, "1.0", False),
        (DType.BOOL_8, True, True),
        (DType.BOOL_8, np.False_, True),
        (DType.BOOL_8, 2, False),
        (DType.STRING, "a", True),
        (DType.STRING, 1, False),
        (DType.UNDEFINED, 0, False),
    ],
)
def test_a_scalar_fits_its_type(dtype: DType, value: object, fits: bool) -> None:
    assert Scalar(dtype, value).fits is fits


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([2**32 + 1]), DType.INT_32),
        (np.array([-1]), DType.UINT_32),
        (np.array([256]), DType.UFIXED_POINT_8),
        (np.array([8], np.int8), DType.SFIXED_POINT_4),
        (np.array([1, np.nan]), DType.INT_8),
        (np.array([0.5], np.float32), DType.UINT_8),
    ],
)
def test_what_a_type_cannot_hold_is_not_stored(values: Array, dtype: DType) -> None:
    with pytest.raises(GraphError, match=f"cannot be stored as {dtype.name}"):
        Tensor.static("t", values, dtype)


def test_what_exceeds_a_float_type_is_infinite() -> None:
    stored = unpack(pack(np.array([1e300, -1e300, 1.0]), DType.FLOAT_32), DType.FLOAT_32, (3,))
    assert stored.tolist() == [np.inf, -np.inf, 1.0]


def test_copies_share_the_bytes_and_pickles_have_them() -> None:
    blob = Blob(np.arange(4, dtype=np.uint8), check=lambda: None)
    assert copy.deepcopy(blob) is blob
    back = pickle.loads(pickle.dumps(blob))  # noqa: S301 - our own
    assert (back.bytes.tolist(), back.hash) == ([0, 1, 2, 3], blob.hash)
    with pytest.raises(ValueError, match="read-only"):
        back.bytes[0] = 1
