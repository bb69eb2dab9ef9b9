"""Files of named arrays in the format safetensors.

A file is the length of a JSON header (8 bytes, little endian), the header, and the arrays without
gaps. Source: the format's documentation, "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from dovetail.container import MappedFile
from dovetail.errors import FrontendError, Problem
from dovetail.files import atomic_write
from dovetail.ir import Array
from dovetail.ir.storage import bfloat16_to_float32

_MAX_HEADER = 100_000_000  # bytes; the format's own limit
_MAX_RANK = 64  # of NumPy
_METADATA = "__metadata__"
_BFLOAT16 = "BF16"
_TYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        **{"F64": "<f8", "F32": "<f4", "F16": "<f2", _BFLOAT16: "<u2", "BOOL": "?"},
        **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1"},
        **{"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"},
    }.items()
}
_NAMES = {dtype: name for name, dtype in _TYPES.items() if name != _BFLOAT16}


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SafeTensors:
    """The content of a file.

    Attributes:
        arrays: Arrays by name; bfloat16 as float32.
        metadata: Texts by name.
    """

    arrays: Mapping[str, Array]
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_safetensors(path: str | os.PathLike[str]) -> SafeTensors:
    """Read a file; the arrays are views of it, which must not be changed in place.

    Raises:
        FrontendError: The file cannot be read, or is damaged; every fault is listed.
    """
    file = MappedFile(os.fspath(path))
    where, size = str(path), len(file.data)
    length = int(file.data[:8].view("<u8")[0]) if size >= 8 else 0
    if not 2 <= length <= min(_MAX_HEADER, size - 8):
        raise FrontendError(
            "is not a safetensors file: the size of its header is wrong",
            where=where,
            hint="the file is damaged or has another format",
        )
    entries, metadata = _header(file.data[8 : 8 + length].tobytes(), where)
    start = 8 + length
    problems = list(_faults(entries, size - start))
    if problems:
        raise FrontendError("is not a valid safetensors file", where=where, problems=problems)
    arrays = {}
    for name, entry in entries.items():
        low, high = entry.data_offsets
        stored = file.view(start + low, high - low)
        # a file aligns its data to 8 bytes or not at all
        stored = stored if (start + low) % 8 == 0 else stored.copy()
        values = stored.view(_TYPES[entry.dtype]).reshape(entry.shape)
        arrays[name] = bfloat16_to_float32(values) if entry.dtype == _BFLOAT16 else values
    return SafeTensors(arrays, metadata)


def _header(text: bytes, where: str) -> tuple[dict[str, _Entry], dict[str, str]]:
    try:
        data = json.loads(text.decode(), object_pairs_hook=_without_repetition)
        if not isinstance(data, dict):
            raise ValueError("expected an object")
        metadata = msgspec.convert(data.pop(_METADATA, {}), dict[str, str])
        return msgspec.convert(data, dict[str, _Entry]), metadata
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise FrontendError(
            f"is not a valid safetensors file: its header is wrong: {error}", where=where
        ) from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _faults(entries: Mapping[str, _Entry], size: int) -> list[Problem]:
    """Return the faults of the entries for this many bytes of data."""
    found = []
    for name, entry in entries.items():
        low, high = entry.data_offsets
        dtype = _TYPES.get(entry.dtype)
        if dtype is None:
            found.append(Problem(f"unsupported type '{entry.dtype[:20]}'", f"tensor '{name}'"))
        elif len(entry.shape) > _MAX_RANK or any(n < 0 for n in entry.shape):
            found.append(Problem(f"impossible shape {entry.shape[:8]}", f"tensor '{name}'"))
        elif high - low != math.prod(entry.shape) * dtype.itemsize:
            text = f"has {high - low} bytes, which {entry.dtype} {entry.shape} does not take"
            found.append(Problem(text, f"tensor '{name}'"))
    at = 0
    for low, high in sorted(entry.data_offsets for entry in entries.values()):
        if low != at or high < low:
            return [*found, Problem(f"the data have a gap or overlap at byte {at}")]
        at = high
    if at != size:
        found.append(Problem(f"the tensors take {at} bytes, but the file has {size}"))
    return found


def write_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file; equal contents give equal bytes. After an error there is no file or the old.

    Raises:
        ContainerError: The file cannot be written.
        ValueError: The format has no type for an array.
    """
    entries: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    parts: list[bytes] = []
    at = 0
    # wide types first, so that all are aligned
    for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
        values = np.ascontiguousarray(arrays[name])
        kind = _NAMES.get(values.dtype.newbyteorder("<"))
        if kind is None:
            raise ValueError(f"safetensors has no type for {values.dtype}, of '{name}'")
        parts.append(values.astype(_TYPES[kind], copy=False).tobytes())
        offsets = [at, at + len(parts[-1])]
        entries[name] = {"dtype": kind, "shape": arrays[name].shape, "data_offsets": offsets}
        at = offsets[1]
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(parts)
