"""Constants from the tensors of a model file; sizes are checked before anything is allocated."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from dovetail.container import MappedBlob, MappedFile
from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.files import contained, unreadable
from dovetail.ir import Array, DType
from dovetail.ir.storage import bfloat16_to_float32
from dovetail_onnx._dtypes import PACKED, dtype_of, element_type_name
from dovetail_onnx._payloads import Payloads
from dovetail_opset.importing.constant import MAX_RANK, Constant

_EXTERNAL = "MODEL_EXTERNAL_DATA"
_MAX_DIGITS = 19  # digits of the maximum size of a file
_MAX_ELEMENTS = 2**56  # so that the bytes of 8-byte elements stay below 2**63
# The field that holds a type's values where raw_data does not.
_FIELDS = {
    DType.FLOAT_32: "float_data",
    DType.FLOAT_64: "double_data",
    DType.INT_64: "int64_data",
    DType.UINT_32: "uint64_data",
    DType.UINT_64: "uint64_data",
}


class TensorReader:
    """Reads the constants that a model's TensorProtos hold.

    Args:
        folder: The model file's folder, which must contain external data.
        payloads: The elements of large initializers.
    """

    def __init__(self, folder: Path, payloads: Payloads) -> None:
        self._folder = folder
        self._payloads = payloads
        self._files: dict[Path, MappedFile] = {}

    @property
    def mapped_bytes(self) -> int:
        """The bytes of all files of external data that were opened so far."""
        return sum(file.data.size for file in self._files.values())

    def check(self) -> None:
        """Raise if one of the files has changed since it was opened: values may be wrong.

        Raises:
            ContainerError: One has.
        """
        self._payloads.check()
        for file in self._files.values():
            file.check()

    def read_initializer(self, proto: TensorProto) -> Constant:
        """Return the values of an initializer of the model's graph; see `read`."""
        return self.read(proto, proto.name, self._payloads.read(proto.name))

    def read(
        self, proto: TensorProto, name: str, payload: NDArray[np.uint8] | None = None
    ) -> Constant:
        """Return a tensor's values; a view if the file stores them in the same form.

        Args:
            proto: The tensor.
            name: Its name in errors, its own or its node's.
            payload: Its raw data, if they are not in the proto.

        Raises:
            FrontendError: The tensor is wrong, or its external data is.
            UnsupportedOpError: The IR has no such element type.
        """
        where, code = f"tensor '{name}'", proto.data_type
        packed = code if code in PACKED else None
        dtype = dtype_of(code)
        if dtype is None:
            raise UnsupportedOpError(
                f"unsupported element type {element_type_name(code)}", where=where
            )
        shape = _shape(proto, where)
        count = math.prod(shape)
        # two 4-bit elements are read as one byte, and separated
        stored_count = count if packed is None else -(-count // 2)
        wanted = dtype.nbytes((stored_count,))
        blob = None
        if proto.data_location == TensorProto.EXTERNAL:
            region, blob = self._external(proto, wanted, where)
            stored = region.view(dtype.storage)
        elif payload is not None or proto.HasField("raw_data"):
            raw = proto.raw_data if payload is None else payload.data
            stored = _raw(raw, dtype, wanted, proto, where)
        else:
            stored = _typed(proto, dtype, stored_count, where)
        if packed is not None:
            stored = _halves(stored, count)
        values = stored.reshape(shape)
        values = bfloat16_to_float32(values) if dtype is DType.BFLOAT_16 else values
        is_view = packed is None and dtype is not DType.BFLOAT_16
        return Constant(values, dtype, name, packed, stored=blob if is_view else None)

    def _external(
        self, proto: TensorProto, wanted: int, where: str
    ) -> tuple[Array, MappedBlob | None]:
        """Return the bytes of a tensor, and their blob unless they are a copy."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), "offset", where)
        length = _number(entries.get("length", str(wanted)), "length", where)
        if length != wanted:
            raise FrontendError(
                f"the external data has {length} bytes, but type and shape take {wanted}",
                code=_EXTERNAL,
                where=where,
            )
        file = self._file(location, where)
        if offset + length > len(file.data):
            raise FrontendError(
                f"bytes {offset} to {offset + length} are out of range for '{location}', which has "
                f"{len(file.data)}",
                code=_EXTERNAL,
                where=where,
                hint="the data file is cut short or belongs to another model; fetch it again",
            )
        found = file.view(offset, length)
        # whoever views it as wider elements later may rely on them being aligned
        if offset % 8:
            return found.copy(), None
        return found, MappedBlob(file, offset, length)

    def _file(self, location: str, where: str) -> MappedFile:
        hint = "put the data file next to the model, under the name that the model states"
        if not location:
            raise FrontendError(
                "the external data names no file", code=_EXTERNAL, where=where, hint=hint
            )
        try:
            path = contained(self._folder, location)
        except FrontendError as error:
            raise FrontendError(
                f"the external data {error.message}", code=_EXTERNAL, where=where, hint=error.hint
            ) from error
        if path not in self._files:
            if not _is_file(path):
                raise FrontendError(
                    f"the external data file '{location[:80]}' is missing from {self._folder}",
                    code=_EXTERNAL,
                    where=where,
                    hint=hint,
                )
            self._files[path] = MappedFile(str(path))
        return self._files[path]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # longer than a name can be
        raise unreadable(path, error) from error


def _shape(proto: TensorProto, where: str) -> tuple[int, ...]:
    shape = tuple(proto.dims)
    if shape and min(shape) < 0:
        raise FrontendError(f"the shape {shape} has a negative size", where=where)
    if len(shape) > MAX_RANK:
        raise FrontendError(
            f"unsupported rank {len(shape)}; the maximum is {MAX_RANK}", where=where
        )
    # also of a tensor without elements, whose other sizes NumPy multiplies
    if math.prod(filter(None, shape)) > _MAX_ELEMENTS:
        raise FrontendError(f"the shape {shape} is too large for any memory", where=where)
    if proto.HasField("segment"):
        raise FrontendError(
            "unsupported storage in segments, which ONNX never defined", where=where
        )
    return shape


def _raw(
    data: bytes | memoryview, dtype: DType, wanted: int, proto: TensorProto, where: str
) -> Array:
    if len(data) != wanted:
        raise _wrong_size(f"{len(data)} bytes", f"{wanted}", proto, where)
    return np.frombuffer(data, dtype.storage)


def _typed(proto: TensorProto, dtype: DType, count: int, where: str) -> Array:
    field = getattr(proto, _FIELDS.get(dtype, "int32_data"))
    if len(field) != count:
        raise _wrong_size(f"{len(field)} elements", f"{count}", proto, where)
    if dtype in _FIELDS:
        return np.array(field, dtype.storage)
    # int32_data holds narrow integers as they are, and 16-bit floats as their bit patterns
    wide = np.array(field, np.int32)
    if dtype in (DType.FLOAT_16, DType.BFLOAT_16):
        return wide.astype(np.uint16).view(dtype.storage)
    return wide.astype(dtype.storage)


def _halves(stored: Array, count: int) -> Array:
    """Return the elements of 4 bits that bytes hold, the first in the low half; (count,)."""
    both = np.empty((len(stored), 2), stored.dtype)
    # a signed type shifts its sign along
    both[:, 0] = (stored << 4) >> 4
    both[:, 1] = stored >> 4
    return both.reshape(-1)[:count]


def _wrong_size(found: str, wanted: str, proto: TensorProto, where: str) -> FrontendError:
    return FrontendError(
        f"expected {wanted} of data for {element_type_name(proto.data_type)} "
        f"{tuple(proto.dims)}, got {found}",
        where=where,
        hint="the file is damaged or was written by a faulty exporter",
    )


def _number(text: str, key: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise FrontendError(
            f"the {key} '{text[:40]}' of the external data is not a number of bytes",
            code=_EXTERNAL,
            where=where,
        )
    return int(text)
