"""Tar files of weights: one stored entry `NAME.raw` for each static tensor.

Entries are found by their headers and mapped, never extracted. Source: POSIX.1-1988 (ustar), with
the long names of POSIX.1-2001 (pax) and of GNU tar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from dovetail.container import MappedBlob, MappedFile
from dovetail.errors import Problem
from dovetail.ir import Blob

SUFFIX = ".raw"
_BLOCK = 512
_MAX_NAME = 1 << 16  # bytes of a long name or of a pax header
_REGULAR = (b"0", b"\0", b"7")
_FOLDER, _PAX, _PAX_GLOBAL, _GNU_NAME = b"5", b"x", b"g", b"L"
_PAX_RECORD = re.compile(rb"(\d{1,6}) ([^=\n]+)=")


class Entry(NamedTuple):
    """The bytes of an entry in the file."""

    start: int
    size: int


class _Stated(NamedTuple):
    """Name and size that a header states for the next entry; empty and -1 for none."""

    name: str
    size: int


_NOTHING = _Stated("", -1)


class Weights:
    """The entries of a tar file by tensor.

    Args:
        path: The file.

    Attributes:
        path: The file.
        problems: Every fault of the file.

    Raises:
        FrontendError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._file = MappedFile(str(path))
        self._entries: dict[str, Entry] = {}
        self._read()

    @property
    def sizes(self) -> Mapping[str, int]:
        """Numbers of bytes by tensor, in order."""
        return {name: entry.size for name, entry in self._entries.items()}

    def blob(self, name: str) -> Blob | None:
        """Return the bytes of a tensor, mapped; None if the file has none."""
        entry = self._entries.get(name)
        return None if entry is None else MappedBlob(self._file, entry.start, entry.size)

    def _read(self) -> None:
        offset, stated = 0, _NOTHING
        size = self._file.data.size
        while offset + _BLOCK <= size:
            header = self._bytes(offset, _BLOCK)
            if not any(header):
                return  # the end; whatever follows is padding
            kind = header[156:157]
            entry = self._entry(header, offset, stated.size if kind in _REGULAR else -1)
            if entry is None:
                return
            offset = entry.start + -(-entry.size // _BLOCK) * _BLOCK
            if kind in (_PAX, _GNU_NAME):
                if entry.size > _MAX_NAME:
                    self._fault(f"a header of {entry.size} bytes; at most {_MAX_NAME} are read")
                    return
                found = self._bytes(*entry)
                stated = _pax(found) if kind == _PAX else _Stated(_text(found), -1)
            elif kind != _PAX_GLOBAL:
                self._add(stated.name or _name(header), kind, entry)
                stated = _NOTHING
        if offset != size:
            part = "header" if offset < size else "padding"
            self._fault(f"the file ends within an entry's {part}")

    def _entry(self, header: bytes, offset: int, stated: int) -> Entry | None:
        """Return the bytes of the entry with a header; None, with a fault, if it has none."""
        start, total = offset + _BLOCK, self._file.data.size
        if not _is_valid(header):
            self._fault(f"no header of an entry at byte {offset}")
            return None
        size = stated if stated >= 0 else _number(header[124:136])
        if not 0 <= size <= total - start:
            self._fault(
                f"the entry at byte {offset} has {size} bytes, which exceed the file's {total}"
            )
            return None
        return Entry(start, size)

    def _add(self, name: str, kind: bytes, entry: Entry) -> None:
        if kind == _FOLDER:
            return
        name = name.removeprefix("./")
        if kind not in _REGULAR:
            self._fault(f"entry '{name}' is a link or a device, not a file")
        elif not name.endswith(SUFFIX):
            self._fault(f"entry '{name}' is not named TENSOR{SUFFIX}")
        elif name.removesuffix(SUFFIX) in self._entries:
            self._fault(f"duplicate entry '{name}'")
        else:
            self._entries[name.removesuffix(SUFFIX)] = entry

    def _bytes(self, start: int, size: int) -> bytes:
        return self._file.view(start, size).tobytes()

    def _fault(self, text: str) -> None:
        self.problems.append(Problem(text, where=str(self.path)))


def write_weights(file: IO[bytes], blobs: Mapping[str, Blob]) -> None:
    """Write the entries of tensors in their order, stored; equal blobs produce equal bytes."""
    for name, blob in blobs.items():
        for part in _headers(f"{name}{SUFFIX}".encode(), blob.nbytes):
            file.write(part)
        file.write(blob.bytes.data)
        file.write(bytes(-blob.nbytes % _BLOCK))
        blob.release()
    file.write(bytes(2 * _BLOCK))


def _headers(name: bytes, size: int) -> Iterable[bytes]:
    if len(name) <= 100:
        yield _header(name, size, b"0")
        return
    record = b" path=" + name + b"\n"
    length = len(record) + len(str(len(record) + 3))
    pax = str(length).encode() + record
    # A reader that ignores pax sees a shorter name with the suffix.
    short = name[: 100 - len(SUFFIX)] + SUFFIX.encode()
    yield _header(short, len(pax), b"x")
    yield pax + bytes(-len(pax) % _BLOCK)
    yield _header(short, size, b"0")


def _header(name: bytes, size: int, kind: bytes) -> bytes:
    stored = b"%011o\0" % size if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big")
    parts = (
        name.ljust(100, b"\0"),
        b"0000644\0",
        b"0000000\0",
        b"0000000\0",
        stored,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        bytes(100),
        b"ustar\x0000",
    )
    header = bytearray(b"".join(parts).ljust(_BLOCK, b"\0"))
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _is_valid(header: bytes) -> bool:
    """Return whether the checksum of a header is right."""
    return sum(header[:148]) + sum(header[156:]) + 8 * 32 == _number(header[148:156])


def _number(field: bytes) -> int:
    """Return an octal or binary number; -1 if it is none."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    digits = field.strip(b" \0")
    if not digits:
        return 0
    return int(digits, 8) if re.fullmatch(rb"[0-7]+", digits) else -1


def _name(header: bytes) -> str:
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    name = _text(header[:100])
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _pax(data: bytes) -> _Stated:
    """Return what a pax header states."""
    name, size, start = "", -1, 0
    while (found := _PAX_RECORD.match(data, start)) and int(found[1]) > found.end() - start:
        value = data[found.end() : start + int(found[1]) - 1]
        if found[2] == b"path":
            name = _text(value)
        elif found[2] == b"size":
            size = int(value) if re.fullmatch(rb"\d{1,18}", value) else -1
        start += int(found[1])
    return _Stated(name, size)
