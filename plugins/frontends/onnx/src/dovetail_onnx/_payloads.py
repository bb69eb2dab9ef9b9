"""The bytes of large initializers, left in the model file until they are read.

protobuf copies them when it parses a message, and again each time a field is read. So they are cut
out before: what is parsed are the other bytes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from dovetail.container import MappedFile

# Payloads up to this size are parsed with the rest.
_SMALL = 1 << 14
# Payloads from this size on leave memory when they have been read.
_LARGE = 1 << 20
# Keys of the fields: their number and wire type (2 is a length, then as many bytes).
_MODEL_GRAPH = 7 << 3 | 2
_GRAPH_INITIALIZER = 5 << 3 | 2
_TENSOR_NAME = 8 << 3 | 2
_TENSOR_RAW_DATA = 9 << 3 | 2
_FIXED_SIZES = {1: 8, 5: 4}
# Most bytes of a key or length, and of a value.
_NUMBER, _VALUE = 5, 10
# Most fields of a message, and for how many bytes there may be another one: each takes 0.7 us here,
# and protobuf reads short ones faster.
_MOST_FIELDS, _LEAST_BYTES = 1 << 12, 64

Region = tuple[int, int]  # offset and size
Pieces = list[memoryview | bytes]


class Payloads:
    """A model file, and where in it the elements of large initializers are.

    Args:
        path: The file.

    Attributes:
        rest: The file without these elements: a complete ONNX message if the file is one.

    Raises:
        FrontendError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = MappedFile(str(path))
        self._regions: dict[str, Region] = {}
        self._last: Region = 0, 0
        data = self._file.data.data
        try:
            pieces = _cut(data, (0, len(data)), _MODEL_GRAPH, self._cut_graph)
        except ValueError:  # protobuf finds out what is wrong
            pieces, self._regions = None, {}
        self.rest: bytes = b"".join(pieces or [data])

    def read(self, name: str) -> NDArray[np.uint8] | None:
        """Return a view of an initializer's bytes; None if they are in the rest.

        Of a large one that was read before, the pages leave memory until they are used again.

        Raises:
            ContainerError: The file has changed since it was parsed.
        """
        region = self._regions.get(name)
        if region is None:
            return None
        self.check()
        if self._last[1] >= _LARGE:
            self._file.release(*self._last)
        self._last = region
        return self._file.view(*region)

    def check(self) -> None:
        """Raise if the file has changed since it was parsed: what was read may be wrong.

        Raises:
            ContainerError: It has.
        """
        self._file.check()

    def restore(self, model: ModelProto) -> None:
        """Put the bytes back into the model that was parsed from the rest."""
        for tensor in model.graph.initializer:
            is_cut = not tensor.HasField("raw_data")  # and not another one of that name
            if is_cut and (payload := self.read(tensor.name)) is not None:
                tensor.raw_data = payload.tobytes()

    def _cut_graph(self, data: memoryview, start: int, stop: int) -> Pieces | None:
        return _cut(data, (start, stop), _GRAPH_INITIALIZER, self._cut_tensor)

    def _cut_tensor(self, data: memoryview, start: int, stop: int) -> Pieces | None:
        """Note where a large payload is, and return what remains of the tensor."""
        if stop - start <= _SMALL:
            return None
        fields = {key: (first, inner, end) for key, first, inner, end in _fields(data, start, stop)}
        if not {_TENSOR_NAME, _TENSOR_RAW_DATA} <= fields.keys():
            return None
        _, inner, end = fields[_TENSOR_NAME]
        first, offset, after = fields[_TENSOR_RAW_DATA]
        if after - offset <= _SMALL:
            return None
        name = str(data[inner:end], "utf-8")
        if name in self._regions:
            raise ValueError(f"two initializers have the name {name}")
        self._regions[name] = offset, after - offset
        return [data[start:first], data[after:stop]]


def _cut(
    data: memoryview,
    region: Region,
    key: int,
    inner: Callable[[memoryview, int, int], Pieces | None],
) -> Pieces | None:
    """Return a message without what `inner` cuts out of the messages in one of its fields.

    Args:
        data: The file.
        region: First byte of the message, and the byte after it.
        key: The key of the field.
        inner: Returns the pieces that remain of a message, None if that is all.

    Returns:
        The pieces that remain, few even if there are many fields; None if that is all.

    Raises:
        ValueError: The message is not well formed.
    """
    pieces: Pieces = []
    kept, stop = region  # what is before it is in the pieces, or cut out
    for found, first, start, end in _fields(data, kept, stop):
        if found == key and (rest := inner(data, start, end)) is not None:
            pieces += [data[kept:first], *_message(key, rest)]
            kept = end
    return [*pieces, data[kept:stop]] if pieces else None


def _message(key: int, pieces: Pieces) -> Pieces:
    """Return an embedded message with its key and length."""
    size, head = sum(map(len, pieces)), bytearray([key])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return [bytes(head), *pieces]


def _fields(data: memoryview, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: key, first byte, first byte of the content, byte after it.

    Raises:
        ValueError: It is not well formed, has groups, which ONNX does not use, or many short
            fields.
    """
    at, left = start, _MOST_FIELDS + (stop - start) // _LEAST_BYTES
    while at < stop:
        first = at
        left -= 1
        if left < 0:
            raise ValueError("there are too many fields")
        key, at = _varint(data, at, stop, _NUMBER)
        kind = key & 7
        if kind == 2:
            size, at = _varint(data, at, stop, _NUMBER)
        elif kind == 0:
            size = _varint(data, at, stop, _VALUE)[1] - at
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"unexpected wire type {kind}")
        if size > stop - at:
            raise ValueError("a field is cut short")
        yield key, first, at, at + size
        at += size


def _varint(data: memoryview, at: int, stop: int, longest: int) -> tuple[int, int]:
    """Return a number of up to `longest` bytes and the byte after it."""
    value = 0
    for i in range(min(longest, stop - at)):
        byte = data[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise ValueError("a number is cut short, or longer than protobuf permits")
