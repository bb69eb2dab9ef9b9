"""The byte format: header, placement of blobs, checksums. docs/container.md specifies it.

header (64 bytes) | manifest | padding | blob | padding | blob | padding ... end of file
"""

from __future__ import annotations

import enum
import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from dovetail.errors import ContainerError
from dovetail.files import open_regular

# As in PNG: the high bit and the line ends reveal a transfer in text mode.
MAGIC = b"\x89DVT\r\n\x1a\n"
VERSION = 1
BLOB_ALIGNMENT = 64
CHUNK_BYTES = 4 << 20
# Bounded, since JSON grows twentyfold when decoded; enough for some 400,000 tensors.
MAX_MANIFEST_BYTES = 1 << 26

# magic, version, kind, checksum of the header, manifest bytes, file bytes, SHA-256 of the manifest
_HEADER = struct.Struct("<8sHHIQQ32s")
_CHECKSUM = slice(12, 16)
HEADER_BYTES = _HEADER.size

Bytes = NDArray[np.uint8]


class Kind(enum.IntEnum):
    """Content of a container."""

    MODEL = 1
    CONTEXT = 2
    SECTION = 3


class Header(msgspec.Struct, frozen=True):
    """The fixed first bytes of a container."""

    kind: Kind
    manifest_bytes: int
    file_bytes: int
    manifest_sha256: bytes
    version: int = VERSION


class Placement(msgspec.Struct, frozen=True):
    """Positions in a file, determined by the sizes of the manifest and the blobs alone.

    Attributes:
        offsets: First byte of each blob.
        gaps: First byte of each stretch of padding, and the byte after its last.
        file_bytes: Size of the whole file.
    """

    offsets: tuple[int, ...]
    gaps: tuple[tuple[int, int], ...]
    file_bytes: int


def placement_of(manifest_bytes: int, sizes: Iterable[int]) -> Placement:
    """Return the placement of blobs of these sizes, in order, each at the next aligned byte."""
    offsets, gaps, end = [], [], HEADER_BYTES + manifest_bytes
    for size in (*sizes, 0):  # the last, empty one marks the end of the file
        start = -(-end // BLOB_ALIGNMENT) * BLOB_ALIGNMENT
        offsets.append(start)
        if start > end:
            gaps.append((end, start))
        end = start + size
    return Placement(tuple(offsets[:-1]), tuple(gaps), end)


def chunk_checksums(data: Bytes) -> Iterator[int]:
    """Yield the CRC-32 of each chunk of a blob; the last chunk may be shorter."""
    for start in range(0, data.size, CHUNK_BYTES):
        yield zlib.crc32(data[start : start + CHUNK_BYTES].data)


def chunk_count(size: int) -> int:
    """Return the number of chunks of a blob of `size` bytes."""
    return -(-size // CHUNK_BYTES)


def pack_header(header: Header) -> bytes:
    """Return the bytes of a header."""
    fields = (header.manifest_bytes, header.file_bytes, header.manifest_sha256)
    blank = _HEADER.pack(MAGIC, header.version, header.kind, 0, *fields)
    return _HEADER.pack(MAGIC, header.version, header.kind, _header_checksum(blank), *fields)


def unpack_header(data: Bytes, where: str) -> Header:
    """Return the header of a file.

    Raises:
        ContainerError: The bytes are not a container, have a newer format, or the header is
            damaged.
    """
    raw = data[:HEADER_BYTES].tobytes()
    if not raw or not raw.startswith(MAGIC[: len(raw)]):
        raise ContainerError(
            "the file is not a Dovetail container" if raw else "the file is empty",
            code="CONTAINER_NOT_ONE",
            where=where,
            hint="pass a .dvt model or a context binary, or convert the source model",
        )
    if len(raw) < HEADER_BYTES:
        raise damaged(
            f"the file is cut short: it has {len(raw)} of the header's {HEADER_BYTES} bytes", where
        )
    _, version, kind, checksum, manifest_bytes, file_bytes, digest = _HEADER.unpack(raw)
    if checksum != _header_checksum(raw):
        raise damaged("the header is damaged: its checksum does not match", where)
    if version != VERSION:
        raise ContainerError(
            f"unsupported format version {version}; this core reads version {VERSION}",
            code="CONTAINER_VERSION",
            where=where,
            hint="upgrade dovetail-core, or write the file again with this version",
        )
    if kind not in set(Kind):
        raise ContainerError(
            f"unknown kind {kind} of container", code="CONTAINER_INVALID", where=where
        )
    return Header(Kind(kind), manifest_bytes, file_bytes, digest, version)


def check_manifest(header: Header, data: Bytes, where: str) -> memoryview:
    """Return the manifest's bytes after the checks that need no decoding.

    Raises:
        ContainerError: The file's size is wrong, or the manifest is damaged.
    """
    if data.size < header.file_bytes:
        raise damaged(
            f"the file is cut short: it has {data.size} of {header.file_bytes} bytes", where
        )
    if data.size > header.file_bytes:
        raise damaged(
            f"the file has {data.size} bytes, but {header.file_bytes} were written", where
        )
    if header.manifest_bytes > min(data.size - HEADER_BYTES, MAX_MANIFEST_BYTES):
        raise ContainerError(
            f"impossible manifest size of {header.manifest_bytes} bytes",
            code="CONTAINER_INVALID",
            where=where,
        )
    manifest = data[HEADER_BYTES : HEADER_BYTES + header.manifest_bytes].data
    if hashlib.sha256(manifest).digest() != header.manifest_sha256:
        raise damaged("the manifest is damaged: its checksum does not match", where)
    return manifest


def damaged(message: str, where: str) -> ContainerError:
    """Return the error for bytes that differ from those written."""
    return ContainerError(
        message,
        where=where,
        hint="create or fetch the file again; `dovetail inspect --verify` checks all of it",
    )


def _header_checksum(raw: bytes) -> int:
    """Return the CRC-32 of the header without the four bytes that store it."""
    return zlib.crc32(raw[_CHECKSUM.stop :], zlib.crc32(raw[: _CHECKSUM.start]))


def is_container(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a container; False if it is unreadable, or is a pipe."""
    try:
        with open_regular(Path(path)) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
