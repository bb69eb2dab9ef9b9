"""Blobs (immutable stored bytes with a content hash); packing of 4-bit and bfloat16 values."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import GraphError
from dovetail.ir.dtypes import DType

Array = NDArray[Any]


class Blob:
    """Immutable stored bytes that several tensors may share, with their content hash.

    Copies share the bytes; a pickled blob contains them.

    Args:
        data: The bytes: a C-contiguous array, viewed as uint8 and not copied. It must not change
            afterwards.
        hash: SHA-256 in hex where it is known; otherwise computed when first needed.
        check: Called once, before the bytes are first used; raises if they are damaged.
    """

    __slots__ = ("_bytes", "_check", "_hash")

    def __init__(
        self,
        data: Array,
        *,
        hash: str | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        flat.flags.writeable = False
        self._bytes = flat
        self._hash = hash
        self._check = check

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._bytes.nbytes

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes, shape (nbytes,), read-only; checked when first used if they can be damaged."""
        if self._check is not None:
            self._check_once()
        return self._bytes

    @property
    def hash(self) -> str:
        """SHA-256 of the bytes in hex."""
        if self._hash is None:
            self._hash = hashlib.sha256(self.bytes.data).hexdigest()
        return self._hash

    @property
    def is_hashed(self) -> bool:
        """True if the hash is known, so that it is not computed."""
        return self._hash is not None

    @property
    def guard(self) -> Callable[[], None] | None:
        """A check to call before arrays over the bytes are read again; None for private memory.

        It raises if the bytes may have changed.
        """
        return None

    def detached(self) -> Blob:
        """Return a blob with the same bytes in private memory; itself if they are there."""
        return self

    def release(self) -> None:
        """Allow the bytes to leave memory if they can be read again from a file.

        Arrays over them stay valid.
        """

    def _check_once(self) -> None:
        if self._check is not None:
            self._check()
            self._check = None

    def __deepcopy__(self, memo: object) -> Blob:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (np.array(self.bytes), self._hash)


def _restored(data: Array, hash: str | None) -> Blob:
    """Return a blob from its pickled state."""
    return Blob(data, hash=hash)


class DeferredBlob(Blob):
    """Stored bytes that are computed when they are used, and freed when nothing uses them.

    So a large constant whose file is mapped takes no memory in another layout, either.

    Args:
        nbytes: How many bytes there are.
        make: Computes them: a new array of any shape; each call must return the same.
        source: What they are computed from, which is released with them.
    """

    __slots__ = ("_made", "_make", "_nbytes", "_source")

    def __init__(self, nbytes: int, make: Callable[[], Array], source: Blob | None = None) -> None:
        super().__init__(np.empty(0, np.uint8))
        self._nbytes = nbytes
        self._make = make
        self._source = source
        self._made: weakref.ref[Array] | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes, shape (nbytes,), read-only; computed unless an array over them is in use."""
        found = None if self._made is None else self._made()
        if found is None:
            found = _owner(self._make())
            found.flags.writeable = False
            self._made = weakref.ref(found)
        return found.reshape(-1).view(np.uint8)

    def release(self) -> None:
        """Release the source; the computed bytes leave memory when no array uses them."""
        if self._source is not None:
            self._source.release()

    def detached(self) -> Blob:
        """Return a blob with the computed bytes."""
        return Blob(self.bytes, hash=self._hash)


def _owner(array: Array) -> Array:
    """Return the C-contiguous array that owns an array's memory, if need be a copy.

    Views refer to it, so that it decides how long the memory lives.
    """
    owner = array if array.base is None else array.base
    if not isinstance(owner, np.ndarray) or owner.nbytes != array.nbytes:
        return np.array(array, order="C")
    is_same = array.flags.c_contiguous and owner.flags.c_contiguous and owner.flags.owndata
    return owner if is_same else np.array(array, order="C")


def pack(values: Array, dtype: DType) -> Blob:
    """Return a blob with logical values in their stored form.

    Args:
        values: Any shape. Stored integers for integer and fixed-point types, numbers for float
            types (float32 for BFLOAT_16), text without NUL for STRING.
        dtype: The type to store them as.

    Raises:
        GraphError: An integer or fixed-point type cannot hold a value: a fraction, NaN, or a
            number out of range.
    """
    if dtype.is_plain and values.dtype == dtype.storage:
        return Blob(values)
    is_whole = dtype.is_int or dtype.is_fixed_point
    if is_whole and (wrong := find_unfit(values, dtype)).any():
        raise GraphError(
            f"{np.asarray(values)[wrong][0]} cannot be stored as {dtype.name}",
            hint="use a wider type, or clip the values",
        )
    if dtype.is_packed:
        flat = np.ascontiguousarray(values, dtype.storage).reshape(-1).view(np.uint8) & 0x0F
        if flat.size % 2:
            flat = np.append(flat, np.uint8(0))
        return Blob(flat[0::2] | (flat[1::2] << 4))
    if dtype is DType.BFLOAT_16:
        return Blob(float32_to_bfloat16(values))
    if dtype is DType.STRING:
        joined = "".join(f"{text}\0" for text in np.asarray(values).reshape(-1).tolist())
        return Blob(np.frombuffer(joined.encode(), np.uint8))
    with np.errstate(over="ignore"):  # to infinity
        return Blob(np.ascontiguousarray(values, dtype.storage))


def find_unfit(values: Array, dtype: DType) -> NDArray[np.bool_]:
    """Return where values do not fit an integer, fixed-point or bool type.

    Fractions, NaN and numbers out of range do not fit. All values fit other types: rounded or
    infinite.

    Args:
        values: Any shape and numeric type; stored integers for fixed-point types.
        dtype: The type to store them as.
    """
    is_bool = dtype is DType.BOOL_8
    is_whole = is_bool or dtype.is_int or dtype.is_fixed_point
    if not is_whole or _all_fit(values, dtype):
        return np.zeros(values.shape, np.bool_)
    low, high = (0, 1) if is_bool else dtype.stored_range()
    if values.dtype.kind == "f":
        values = values.astype(np.float32) if values.dtype.itemsize < 4 else values
        # high + 1 is a power of two and exact, which high itself need not be
        fits = (values >= values.dtype.type(low)) & (values < values.dtype.type(high + 1))
        return np.asarray(~(fits & (np.trunc(values) == values)), np.bool_)
    return np.asarray((values < low) | (values > high), np.bool_)


def _all_fit(values: Array, dtype: DType) -> bool:
    """Return whether all values are of the type in which they are stored."""
    return values.dtype == dtype.storage and not dtype.is_packed


def saturate(values: Array, dtype: DType) -> Array:
    """Return numbers as a plain integer type, in the same way on every processor.

    Fractions are cut off, numbers out of range become the nearest limit, and NaN becomes 0.

    Args:
        values: Any shape and numeric type.
        dtype: The integer type.
    """
    if values.dtype == dtype.storage and dtype.bits == 8 * values.itemsize:
        return values
    low, high = dtype.stored_range()
    if values.dtype.kind == "f":
        values = values.astype(np.float32) if values.dtype.itemsize < 4 else values
        if _is_inside(values, low, high):
            return values.astype(dtype.storage)
        # the largest in range: of a wide type high has more digits than a float; high + 1 is exact
        kind = values.dtype.type
        top = min(float(high), float(np.nextafter(kind(high + 1), kind(0))))
        clipped = np.asarray(np.clip(values, low, top))
        if (is_nan := np.isnan(clipped)).any():
            np.copyto(clipped, 0, where=is_nan)
        stored = clipped.astype(dtype.storage)
        if top < high:
            np.copyto(stored, high, where=values > top)
        return stored
    stored = np.asarray(values).astype(dtype.storage)
    np.copyto(stored, high, where=values > high)
    np.copyto(stored, low, where=values < low)
    return stored


def _is_inside(values: Array, low: int, high: int) -> bool:
    """Return whether all floats are whole numbers of a range after truncation, which takes less.

    A few at its ends may be taken as outside.
    """
    if not values.size:
        return True
    smallest, largest = (extreme.reduce(values, axis=None) for extreme in (np.minimum, np.maximum))
    return bool(smallest > values.dtype.type(low - 1) and largest < values.dtype.type(high + 1))


def unpack(blob: Blob, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the logical values of a blob; a view if their stored form is the same.

    Returns:
        Array of `shape`: `dtype.storage`, float32 for BFLOAT_16, text for STRING.
    """
    if dtype.is_plain:
        return blob.bytes.view(dtype.storage).reshape(shape)
    if dtype is DType.STRING:
        texts = blob.bytes.tobytes().decode().split("\0")[:-1]
        return np.array(texts, np.str_).reshape(shape)
    stored = unpack_stored(blob, dtype, shape)
    return bfloat16_to_float32(stored) if dtype is DType.BFLOAT_16 else stored


def unpack_stored(blob: Blob, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return the stored elements of a blob, one array item each.

    Returns:
        Array of `shape` and type `dtype.storage`; a view except for 4-bit types.
    """
    if not dtype.is_packed:
        return blob.bytes.view(dtype.storage).reshape(shape)
    count = int(np.prod(shape, dtype=np.int64))
    nibbles = np.empty(blob.nbytes * 2, np.uint8)
    nibbles[0::2] = blob.bytes & 0x0F
    nibbles[1::2] = blob.bytes >> 4
    nibbles = nibbles[:count].reshape(shape)
    if dtype.is_signed:
        return np.asarray((nibbles ^ 8).astype(np.int8) - np.int8(8), np.int8)
    return nibbles


def float32_to_bfloat16(values: Array) -> NDArray[np.uint16]:
    """Round to bfloat16 bit patterns, half to even; NaN becomes the quiet NaN 0x7FC0. Any shape."""
    with np.errstate(over="ignore"):  # a float64 beyond float32 is inf
        bits = np.asarray(values, np.float32, order="C").view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16
    kept = np.where(np.isnan(values), np.uint32(0x7FC0), rounded)
    return np.asarray(kept).astype(np.uint16)


def as_numbers(value: object) -> Array:
    """Return a value as NumPy converts it; an array of ml_dtypes' bfloat16 as float32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def bfloat16_to_float32(bits: Array) -> NDArray[np.float32]:
    """Widen bfloat16 bit patterns exactly. Any shape."""
    wide = np.asarray(bits).astype(np.uint32, order="C")
    return np.asarray(wide << np.uint32(16)).view(np.float32)
