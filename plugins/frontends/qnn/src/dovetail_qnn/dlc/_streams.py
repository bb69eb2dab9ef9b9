"""Streams: 8 bytes with a version, then a FlatBuffer whose identifier names its schema."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dovetail_qnn.dlc._tables import GRAPHS, PARAMS
from dovetail_qnn.dlc.flatbuffers import FaultList, identifier_of

MAGIC = b"\xd5\x0a"
MAJOR, MINOR = 4, 1  # what the vendor's library writes
OLD_MAJOR = 3  # of the converters before QNN
_PREFIX = struct.Struct("<2sHHBx")


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream.

    Attributes:
        major: Version of the schema.
        identifier: Four bytes that name the schema.
        data: The FlatBuffer.
    """

    major: int
    identifier: bytes
    data: memoryview


def pack_stream(buffer: bytes) -> bytes:
    """Return a stream of major 4."""
    return _PREFIX.pack(MAGIC, MAJOR, MINOR, 0) + buffer


def open_stream(data: memoryview, where: str, faults: FaultList) -> Stream | None:
    """Return a stream; None with a fault if it has none of the known versions.

    Streams of major 3 may lack the prefix.
    """
    if data[:2] != MAGIC:
        if identifier_of(data) in (GRAPHS, PARAMS):
            return Stream(OLD_MAJOR, identifier_of(data), data)
        faults.add("the stream begins with neither a version nor a known identifier", where)
        return None
    if len(data) < _PREFIX.size:
        faults.add(f"the stream is cut short: {len(data)} bytes", where)
        return None
    _, major, _, reserved = _PREFIX.unpack_from(data)
    if major not in (OLD_MAJOR, MAJOR) or reserved:
        text = f"unsupported version {major} of the stream; expected one of {OLD_MAJOR}, {MAJOR}"
        faults.add(text, where)
        return None
    return Stream(major, identifier_of(data[_PREFIX.size :]), data[_PREFIX.size :])
