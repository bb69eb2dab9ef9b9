"""Conversion of encodings to and from manifest entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from dovetail.container._manifest import (
    ArrayEntry,
    AxisEntry,
    BlockEntry,
    EncodingEntry,
    ExpansionEntry,
    FloatBlockEntry,
    ManifestError,
    MappedEntry,
    ScaleOffsetEntry,
    VectorEntry,
)
from dovetail.errors import GraphError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Blob,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Vector,
    pack,
)

INLINE_ELEMENTS = 64  # larger arrays go into blobs

SCALE = (DType.FLOAT_32,)
OFFSET = (DType.INT_32,)
FACTOR = (DType.UINT_8, DType.UINT_16)


class BlobSink(Protocol):
    """Receives the blobs that entries refer to."""

    def add(self, blob: Blob) -> int:
        """Return the index of a blob; add the blob if its content is new."""


# Returns the array of an entry; takes the allowed types, and the rank if the encoding fixes it.
ReadArray = Callable[[ArrayEntry, tuple[DType, ...], int | None], Array]
DumpArray = Callable[[Array, tuple[DType, ...]], ArrayEntry]

_VECTOR_SIZES = (
    "rows_per_block",
    "columns_per_block",
    "vector_dimension",
    "vector_stride",
    "index_bitwidth",
)


def dump_encoding(encoding: Encoding, table: BlobSink | None, where: str) -> EncodingEntry:
    """Return the entry of an encoding and add its large arrays to `table`.

    Args:
        encoding: The encoding.
        table: Receives large arrays; if it is None, the entry has all arrays itself.
        where: The tensor, for errors.

    Raises:
        GraphError: The encoding is of an unknown class, or an array has values that its type in the
            format cannot hold.
    """

    def dump(array: Array, dtypes: tuple[DType, ...]) -> ArrayEntry:
        return _dump_array(array, dtypes, table, where)

    match encoding:
        case ScaleOffset(scale, offset, bitwidth):
            return ScaleOffsetEntry(float(scale), int(offset), bitwidth)
        case AxisScaleOffset():
            return _dump_axis(encoding, dump)
        case Block() | BlockwiseExpansion():
            return _dump_blocks(encoding, dump)
        case FloatBlock(block_size, scales, offsets, bitwidth):
            block = tuple(int(size) for size in block_size)
            return FloatBlockEntry(block, dump(scales, SCALE), dump(offsets, SCALE), bitwidth)
        case Mapped(AxisScaleOffset() as base, mapping):
            return MappedEntry(_dump_axis(base, dump), mapping)
        case Mapped(Block() | BlockwiseExpansion() as base, mapping):
            return MappedEntry(_dump_blocks(base, dump), mapping)
        case Vector(base):
            return VectorEntry(
                _dump_axis(base, dump), *(int(getattr(encoding, name)) for name in _VECTOR_SIZES)
            )
    raise GraphError(f"unsupported encoding {type(encoding).__name__}", where=where)


def load_encoding(entry: EncodingEntry, read: ReadArray) -> Encoding:
    """Return the encoding of an entry; `read` reads its arrays."""
    match entry:
        case ScaleOffsetEntry(scale, offset, bitwidth):
            return ScaleOffset(scale, offset, bitwidth)
        case AxisEntry():
            return _load_axis(entry, read)
        case BlockEntry() | ExpansionEntry():
            return _load_blocks(entry, read)
        case FloatBlockEntry():
            scales, offsets = read(entry.scales, SCALE, None), read(entry.offsets, SCALE, None)
            return FloatBlock(entry.block_size, scales, offsets, entry.bitwidth)
        case MappedEntry(AxisEntry() as base, mapping):
            return Mapped(_load_axis(base, read), mapping)
        case MappedEntry(BlockEntry() | ExpansionEntry() as base, mapping):
            return Mapped(_load_blocks(base, read), mapping)
        case VectorEntry():
            sizes = (getattr(entry, name) for name in _VECTOR_SIZES)
            return Vector(_load_axis(entry.base, read), *sizes)
    raise AssertionError(entry)


def _dump_axis(encoding: AxisScaleOffset, dump: DumpArray) -> AxisEntry:
    offsets = None if encoding.offsets is None else dump(encoding.offsets, OFFSET)
    return AxisEntry(int(encoding.axis), dump(encoding.scales, SCALE), offsets, encoding.bitwidth)


def _load_axis(entry: AxisEntry, read: ReadArray) -> AxisScaleOffset:
    offsets = None if entry.offsets is None else read(entry.offsets, OFFSET, 1)
    return AxisScaleOffset(entry.axis, read(entry.scales, SCALE, 1), offsets, entry.bitwidth)


def _dump_blocks(
    encoding: Block | BlockwiseExpansion, dump: DumpArray
) -> BlockEntry | ExpansionEntry:
    scales = dump(encoding.scales, SCALE)
    if isinstance(encoding, Block):
        offsets = None if encoding.offsets is None else dump(encoding.offsets, OFFSET)
        block = tuple(int(size) for size in encoding.block_size)
        return BlockEntry(block, scales, offsets, encoding.bitwidth)
    factors = dump(encoding.block_scales, FACTOR)
    offsets = None if encoding.offsets is None else dump(encoding.offsets, OFFSET)
    axis, factor_bits = int(encoding.axis), encoding.block_scale_bitwidth
    return ExpansionEntry(axis, scales, factors, factor_bits, offsets, encoding.bitwidth)


def _load_blocks(entry: BlockEntry | ExpansionEntry, read: ReadArray) -> Block | BlockwiseExpansion:
    rank = None if isinstance(entry, BlockEntry) else 1
    scales = read(entry.scales, SCALE, rank)
    offsets = None if entry.offsets is None else read(entry.offsets, OFFSET, rank)
    if isinstance(entry, BlockEntry):
        return Block(entry.block_size, scales, offsets, entry.bitwidth)
    factors, factor_bits = read(entry.block_scales, FACTOR, 2), entry.block_scale_bitwidth
    return BlockwiseExpansion(entry.axis, scales, factors, offsets, entry.bitwidth, factor_bits)


class ArrayReader(msgspec.Struct, frozen=True):
    """Reads the arrays of encodings: a `ReadArray`.

    Attributes:
        blobs: The container's blobs.
        where: File and path in the manifest, for errors.
    """

    blobs: Sequence[Blob]
    where: str

    def __call__(self, entry: ArrayEntry, dtypes: tuple[DType, ...], rank: int | None) -> Array:
        """Return an array, read-only.

        Raises:
            ContainerError: The type, rank, size or values do not match, or the blob is damaged.
        """
        if entry.dtype not in dtypes or rank not in (None, len(entry.shape)):
            raise self._error(
                f"unexpected array of type {entry.dtype.name} and shape {entry.shape}"
            )
        stored = self._inline(entry) if entry.blob is None else self._from_blob(entry, entry.blob)
        try:
            return stored.reshape(entry.shape)
        except ValueError as error:
            raise self._error(f"an array cannot have the shape {entry.shape}") from error

    def _inline(self, entry: ArrayEntry) -> Array:
        values = entry.values
        if values is None:
            raise self._error("an array has neither values nor a blob")
        if len(values) != math.prod(entry.shape):
            raise self._error(f"{len(values)} values do not match the shape {entry.shape}")
        try:
            given = np.array(values, np.float64)
        except OverflowError as error:
            raise self._error("a value is too large") from error
        with np.errstate(all="ignore"):  # the comparison finds overflows
            array = given.astype(entry.dtype.storage)
        if not np.array_equal(array, given):
            raise self._error(f"a value does not fit {entry.dtype.name}")
        array.flags.writeable = False
        return array

    def _from_blob(self, entry: ArrayEntry, index: int) -> Array:
        if entry.values is not None:
            raise self._error("an array has both values and a blob")
        blob = find_blob(self.blobs, index, f"{self.where}.encoding")
        wanted = entry.dtype.nbytes(entry.shape)
        if blob.nbytes != wanted:
            raise self._error(
                f"blob {index} has {blob.nbytes} bytes where {entry.dtype.name} {entry.shape} "
                f"takes {wanted}"
            )
        return blob.bytes.view(entry.dtype.storage)

    def _error(self, message: str) -> ManifestError:
        return ManifestError(message, where=f"{self.where}.encoding")


def find_blob(blobs: Sequence[Blob], index: int, where: str) -> Blob:
    """Return a blob by its index.

    Raises:
        ContainerError: The index is out of range.
    """
    if index >= len(blobs):
        raise ManifestError(f"blob {index} not found; the file has {len(blobs)}", where=where)
    return blobs[index]


def _dump_array(
    array: Array, dtypes: tuple[DType, ...], table: BlobSink | None, where: str
) -> ArrayEntry:
    given = np.asarray(array)
    dtype = next((d for d in dtypes if d.storage == given.dtype), dtypes[-1])
    with np.errstate(all="ignore"):
        stored = given.astype(dtype.storage)
    if not np.array_equal(stored, given):
        raise GraphError(
            f"an array of the encoding has type {given.dtype}, which does not fit {dtype.name}",
            where=where,
        )
    shape = tuple(given.shape)
    if table is None or given.size <= INLINE_ELEMENTS:
        return ArrayEntry(dtype, shape, values=tuple(stored.reshape(-1).tolist()))
    return ArrayEntry(dtype, shape, blob=table.add(pack(stored, dtype)))
