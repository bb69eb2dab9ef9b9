"""The bytes of large initializers, left in the model file until they are read.

protobuf copies them when it parses a message, and again each time a field is read. So they are cut
out before: what is parsed are the other bytes of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
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
            pieces = self._without_payloads(data)
        except ValueError:  # protobuf finds out what is wrong
            pieces, self._regions = [data], {}
        self.rest: bytes = b"".join(pieces)

    def read(self, name: str) -> NDArray[np.uint8] | None:
        """Return a view of an initializer's bytes; None if they are in the rest.

        Of a large one that was read before, the pages leave memory until they are used again.

        Raises:
            ContainerError: The file has changed since it was parsed.
        """
        region = self._regions.get(name)
        if region is None:
            return None
        self._file.check()
        if self._last[1] >= _LARGE:
            self._file.release(*self._last)
        self._last = region
        return self._file.view(*region)

    def restore(self, model: ModelProto) -> None:
        """Put the bytes back into the model that was parsed from the rest."""
        for tensor in model.graph.initializer:
            if (payload := self.read(tensor.name)) is not None:
                tensor.raw_data = payload.tobytes()

    def _without_payloads(self, data: memoryview) -> Pieces:
        """Return the pieces of the message that remain, and note the others.

        Raises:
            ValueError: It is not well formed.
        """
        pieces: Pieces = []
        for key, first, start, stop in _fields(data, 0, len(data)):
            if key == _MODEL_GRAPH:
                pieces += _message(_MODEL_GRAPH, self._cut_graph(data, start, stop))
            else:
                pieces.append(data[first:stop])
        return pieces

    def _cut_graph(self, data: memoryview, start: int, stop: int) -> Pieces:
        pieces: Pieces = []
        kept = start  # what is before it is in the pieces, or cut out
        for key, first, inner, end in _fields(data, start, stop):
            if key != _GRAPH_INITIALIZER or end - inner <= _SMALL:
                continue
            tensor = _cut_tensor(data, inner, end)
            if tensor is None:
                continue
            name, region, rest = tensor
            if name in self._regions:
                raise ValueError(f"two initializers have the name {name}")
            self._regions[name] = region
            pieces += [data[kept:first], *_message(_GRAPH_INITIALIZER, rest)]
            kept = end
        return [*pieces, data[kept:stop]]


def _cut_tensor(data: memoryview, start: int, stop: int) -> tuple[str, Region, Pieces] | None:
    """Return a tensor's name, where its payload is, and what remains; None if that is small."""
    fields = {key: (first, inner, end) for key, first, inner, end in _fields(data, start, stop)}
    if not {_TENSOR_NAME, _TENSOR_RAW_DATA} <= fields.keys():
        return None
    _, inner, end = fields[_TENSOR_NAME]
    first, offset, after = fields[_TENSOR_RAW_DATA]
    if after - offset <= _SMALL:
        return None
    name = str(data[inner:end], "utf-8")
    return name, (offset, after - offset), [data[start:first], data[after:stop]]


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
        ValueError: It is not well formed, or has groups, which ONNX does not use.
    """
    at = start
    while at < stop:
        first = at
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
