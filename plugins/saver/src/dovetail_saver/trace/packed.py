"""Packed traces: one ZIP file with the files of a trace, which is read in place.

The calls are compressed. The payloads are stored as they are, at a multiple of 64 bytes, so that
they can be mapped.
"""

from __future__ import annotations

import io
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dovetail.errors import TraceError
from dovetail.files import atomic_write

SUFFIX = ".dvtrace"
ALIGNMENT = 64  # bytes
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of name and extra field
_ZIP64_EXTRA = 20  # bytes that zipfile adds to the extra field of a large member
_PADDING_ID = 0xD935  # as Android's zipalign
_TIME = (1980, 1, 1, 0, 0, 0)  # the same trace gives the same file
_CHUNK = 1 << 20
EXPECTED = "name the folder of a trace, which has trace.json and calls.jsonl, or a packed trace"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# What zipfile raises for files that are damaged or of a kind that it does not read.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, OSError, struct.error, UnicodeError),
)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a file.

    Attributes:
        path: The file.
        start: Its first byte.
        size: Number of bytes; None for the rest of the file.
    """

    path: Path
    start: int = 0
    size: int | None = None


def open_packed(path: Path, name: str) -> IO[bytes]:
    """Open a member for reading.

    Raises:
        TraceError: It is missing, damaged, or of a form that this version does not read; also
            while the result is read.
    """
    with _translated(path, name):
        archive = zipfile.ZipFile(path)
        try:
            if archive.getinfo(name).compress_type not in _METHODS:
                raise NotImplementedError(f"the compression of '{name}' is not supported")
            member = archive.open(name)
        finally:
            archive.close()  # the member has the file open
    return io.BufferedReader(_Member(member, path, name), _CHUNK)


def packed_region(path: Path, name: str) -> Region:
    """Return where a member that is not compressed is stored.

    Raises:
        TraceError: It is missing, compressed or not aligned.
    """
    with _translated(path, name), zipfile.ZipFile(path) as archive:
        found = archive.getinfo(name)
        with path.open("rb") as file:
            file.seek(found.header_offset)
            _, names, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    start = found.header_offset + _LOCAL_HEADER.size + names + extra
    is_stored = found.compress_type == zipfile.ZIP_STORED and not found.flag_bits & 1
    if not is_stored or found.file_size != found.compress_size or start % ALIGNMENT:
        raise TraceError(
            f"'{name}' is not stored at a multiple of {ALIGNMENT} bytes",
            where=str(path),
            hint="unpack the file, and pack it with `dovetail trace pack`",
        )
    return Region(path, start, found.file_size)


def write_packed(path: Path, members: list[tuple[str, IO[bytes], bool]]) -> None:
    """Write a packed trace.

    Args:
        path: The file.
        members: Name, content, and whether to compress it.

    Raises:
        ContainerError: It cannot be written.
    """
    with (
        atomic_write(path) as file,
        zipfile.ZipFile(file, "w", allowZip64=True) as archive,
    ):
        for name, content, is_compressed in members:
            info = zipfile.ZipInfo(name, _TIME)
            if is_compressed:
                info.compress_type = zipfile.ZIP_DEFLATED
            else:
                start = file.tell() + _LOCAL_HEADER.size + len(name.encode()) + _ZIP64_EXTRA + 4
                gap = -start % ALIGNMENT
                info.extra = struct.pack("<HH", _PADDING_ID, gap) + bytes(gap)
            with archive.open(info, "w", force_zip64=True) as member:
                shutil.copyfileobj(content, member, _CHUNK)


class _Member(io.RawIOBase):
    """A member of an archive whose damage is a TraceError."""

    def __init__(self, member: IO[bytes], path: Path, name: str) -> None:
        self._member = member
        self._path = path
        self._name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        with _translated(self._path, self._name):
            data = self._member.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _translated(self._path, self._name):
            return self._member.seek(offset, whence)

    def close(self) -> None:
        self._member.close()
        super().close()


@contextmanager
def _translated(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise TraceError(
            f"the packed trace has no '{name}'", where=str(path), hint=EXPECTED
        ) from error
    except _DAMAGED as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(
            f"not a packed trace, or damaged: {reason}", where=str(path), hint=EXPECTED
        ) from error
