"""Data types and tensor kinds: QNN's codes, and how each is stored."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DataFormat, DType, MemoryType, TensorKind, pack

# name, code, bits of a stored element, NumPy type, family; codes as spec/qnn_enums.md prints them
FACTS = [
    ("INT_8", 8, 8, "int8", "int"),
    ("INT_16", 22, 16, "int16", "int"),
    ("INT_32", 50, 32, "int32", "int"),
    ("INT_64", 100, 64, "int64", "int"),
    ("UINT_8", 264, 8, "uint8", "int"),
    ("UINT_16", 278, 16, "uint16", "int"),
    ("UINT_32", 306, 32, "uint32", "int"),
    ("UINT_64", 356, 64, "uint64", "int"),
    ("FLOAT_16", 534, 16, "float16", "float"),
    ("BFLOAT_16", 550, 16, "uint16", "float"),
    ("FLOAT_32", 562, 32, "float32", "float"),
    ("FLOAT_64", 612, 64, "float64", "float"),
    ("SFIXED_POINT_4", 772, 4, "int8", "fixed"),
    ("SFIXED_POINT_8", 776, 8, "int8", "fixed"),
    ("SFIXED_POINT_16", 790, 16, "int16", "fixed"),
    ("SFIXED_POINT_32", 818, 32, "int32", "fixed"),
    ("UFIXED_POINT_4", 1028, 4, "uint8", "fixed"),
    ("UFIXED_POINT_8", 1032, 8, "uint8", "fixed"),
    ("UFIXED_POINT_16", 1046, 16, "uint16", "fixed"),
    ("UFIXED_POINT_32", 1074, 32, "uint32", "fixed"),
    ("BOOL_8", 1288, 8, "bool", "other"),
    ("STRING", 1544, 0, "uint8", "other"),
    ("UNDEFINED", 2147483647, 0, "uint8", "other"),
]
KINDS = {
    "APP_WRITE": 0,
    "APP_READ": 1,
    "APP_READWRITE": 2,
    "NATIVE": 3,
    "STATIC": 4,
    "NULL": 5,
    "UPDATEABLE_STATIC": 6,
    "UPDATEABLE_NATIVE": 7,
    "UPDATEABLE_APP_WRITE": 8,
    "UPDATEABLE_APP_READ": 9,
    "UPDATEABLE_APP_READWRITE": 10,
    "OPTIONAL_APP_WRITE": 11,
    "OPTIONAL_APP_READ": 12,
    "OPTIONAL_APP_READWRITE": 13,
}


FORMATS = {
    "DENSE": 0,
    "SPARSE": 1,
    "CODEBOOK": 2,
    "MX": 3,
    "UBWC_RGBA8888": 4,
    "UBWC_NV12": 5,
    "UBWC_NV12_Y": 6,
    "UBWC_NV12_UV": 7,
    "HMX_WEIGHT_LAYOUT": 8,
    "UBWC_NV124R": 9,
    "UBWC_NV124R_Y": 10,
    "UBWC_NV124R_UV": 11,
}


def test_memory_types_and_formats_are_qnns() -> None:
    assert {m.name: m.value for m in MemoryType} == {"RAW": 0, "MEMHANDLE": 1, "RETRIEVE_RAW": 2}
    assert {f.name: f.value for f in DataFormat} == FORMATS


@pytest.mark.parametrize(("name", "code", "bits", "storage", "family"), FACTS)
def test_a_type_is_qnns(name: str, code: int, bits: int, storage: str, family: str) -> None:
    dtype = DType(code)
    assert dtype.name == name
    assert (dtype.bits, dtype.storage) == (bits, np.dtype(storage))
    told = [dtype.is_int, dtype.is_float, dtype.is_fixed_point]
    assert told == [family == "int", family == "float", family == "fixed"]
    assert dtype.is_packed == (bits == 4)


@pytest.mark.parametrize("dtype", DType)
def test_values_of_plain_types_are_stored_as_they_are(dtype: DType) -> None:
    values = np.array([1, 0, 2], dtype.storage)
    given = values.astype(np.str_) if dtype is DType.STRING else values
    stored = pack(given, dtype).bytes.tobytes()
    assert (stored == values.tobytes()) is dtype.is_plain


def test_there_are_no_other_types_and_kinds() -> None:
    assert {d.name for d in DType} == {row[0] for row in FACTS}
    assert {k.name: int(k) for k in TensorKind} == KINDS


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_int or d.is_fixed_point])
def test_stored_range_is_what_the_storage_holds(dtype: DType) -> None:
    if dtype.is_packed:
        wanted = (-8, 7) if dtype.is_signed else (0, 15)
    else:
        limits = np.iinfo(dtype.storage)
        wanted = (limits.min, limits.max)
    assert dtype.stored_range() == wanted


def test_stored_range_of_a_narrowed_type() -> None:
    assert DType.SFIXED_POINT_8.stored_range(4) == (-8, 7)
    assert DType.UFIXED_POINT_16.stored_range(12) == (0, 4095)


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        (DType.SFIXED_POINT_4, (3, 3), 5),
        (DType.UFIXED_POINT_4, (), 1),
        (DType.UFIXED_POINT_4, (2, 4), 4),
        (DType.BFLOAT_16, (3,), 6),
        (DType.BOOL_8, (7,), 7),
        (DType.FLOAT_64, (2, 0, 3), 0),
        (DType.INT_32, (), 4),
        (DType.INT_64, (2**16, 2**16, 2**8), 2**43),  # more than 32 bits of elements
    ],
)
def test_size_of_a_tensor(dtype: DType, shape: tuple[int, ...], nbytes: int) -> None:
    assert dtype.nbytes(shape) == nbytes


def test_the_type_of_an_array_is_a_plain_one() -> None:
    for name in ("int8", "int64", "uint16", "float16", "float32", "float64"):
        dtype = DType.of(np.dtype(name))
        assert dtype.storage == np.dtype(name)
        assert dtype.is_int or dtype.is_float
    assert DType.of(np.dtype(bool)) is DType.BOOL_8
    assert DType.of(np.dtype(np.uint16)) is DType.UINT_16  # not BFLOAT_16's bit pattern
    with pytest.raises(KeyError):
        DType.of(np.dtype(np.complex64))


def test_who_writes_and_reads_each_kind() -> None:
    def named(role: str) -> set[str]:
        return {k.name for k in TensorKind if getattr(k, role)}

    both = {"APP_READWRITE", "UPDATEABLE_APP_READWRITE", "OPTIONAL_APP_READWRITE"}
    writes = {"APP_WRITE", "UPDATEABLE_APP_WRITE", "OPTIONAL_APP_WRITE"}
    reads = {"APP_READ", "UPDATEABLE_APP_READ", "OPTIONAL_APP_READ"}
    assert named("is_input") == writes | both
    assert named("is_output") == reads | both
    assert named("is_static") == {"STATIC", "UPDATEABLE_STATIC"}
    assert named("is_updateable") == {n for n, code in KINDS.items() if 6 <= code <= 10}
