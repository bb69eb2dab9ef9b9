"""The zip archive of a DLC, mapped: members are found, checked and viewed."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dovetail.container import MappedFile
from dovetail.errors import FrontendError

Bytes = NDArray[np.uint8]

_MAGIC = b"PK\x03\x04"
# Names of members may end with a version: `dlc.metadata2.3.0`.
_VERSION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})*)?")
_LOCAL = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 0x1
_MAX_RATIO = 1032  # of deflate
_MAX_MEMBERS = 1000
_CHUNK_BYTES = 1 << 24
# What reading a damaged directory can raise.
_DAMAGE = (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, EOFError)


def is_zip(path: Path) -> bool:
    """Return whether a file begins as a zip archive."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@dataclass(frozen=True)
class Member:
    """A member of an archive.

    Attributes:
        file: The archive's file.
        info: Its entry in the directory.
        start: First byte of its data in the file.
    """

    file: MappedFile
    info: zipfile.ZipInfo
    start: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.info.filename

    @property
    def where(self) -> str:
        """The file and the name, for errors."""
        return f"{self.file.where}: {self.name}"

    @property
    def is_stored(self) -> bool:
        """True if its data are in the file as they are."""
        return self.info.compress_type == zipfile.ZIP_STORED

    @cached_property
    def data(self) -> Bytes:
        """Its data, uint8: a view of the file if they are stored; not checked.

        Raises:
            FrontendError: The compressed data are damaged.
        """
        packed = self.file.view(self.start, self.info.compress_size)
        return packed if self.is_stored else self._inflated(packed)

    def check(self) -> None:
        """Raise if its data do not match the directory's CRC; they are compared once.

        Raises:
            FrontendError: They differ.
        """
        if not self._is_intact:
            raise _fault("the data do not match their CRC: the file is damaged", self.where)

    @cached_property
    def _is_intact(self) -> bool:
        if not self.info.CRC:
            return True  # the vendor's library writes none
        found = 0
        for at in range(0, self.data.size, _CHUNK_BYTES):  # or all weights would be in memory
            chunk = self.data[at : at + _CHUNK_BYTES]
            found = zlib.crc32(chunk.data, found)
            if self.is_stored:
                self.file.release(self.start + at, chunk.size)
        return found == self.info.CRC

    def _inflated(self, packed: Bytes) -> Bytes:
        size = self.info.file_size
        try:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            found = inflater.decompress(packed.data, size + 1)
        except zlib.error as error:
            raise _fault(f"the compressed data are damaged: {error}", self.where) from error
        if len(found) != size or not inflater.eof:
            raise _fault(f"the data do not have the {size} bytes of the directory", self.where)
        return np.frombuffer(found, np.uint8)


class Archive:
    """The members of a zip archive.

    Attributes:
        members: Members by name.

    Raises:
        FrontendError: The file cannot be read, or is no sound archive.
    """

    def __init__(self, path: Path) -> None:
        self._file = MappedFile(str(path))
        try:
            with zipfile.ZipFile(_ViewFile(self._file.data)) as archive:
                infos = archive.infolist()
        except _DAMAGE as error:
            raise _fault(f"the zip directory is damaged: {error}", str(path)) from error
        if len(infos) > _MAX_MEMBERS:
            raise _fault(f"{len(infos)} members; at most {_MAX_MEMBERS} are read", str(path))
        self.members: dict[str, Member] = {}
        for info in infos:
            if info.filename in self.members:
                raise _fault(f"duplicate member '{info.filename}'", str(path))
            self.members[info.filename] = self._member(info)

    def find(self, stem: str) -> Member | None:
        """Return the member of a name, or else the one with the highest version after the name."""
        if stem in self.members:
            return self.members[stem]
        found = [
            name
            for name in self.members
            if name.startswith(stem) and _VERSION.fullmatch(name, len(stem))
        ]
        return self.members[max(found, key=lambda n: _version(n, stem))] if found else None

    def _member(self, info: zipfile.ZipInfo) -> Member:
        where = f"{self._file.where}: {info.filename}"
        size = self._file.data.size
        at = info.header_offset
        if not 0 <= at <= size - _LOCAL.size:
            raise _fault(f"the header at {at} is outside the {size} bytes of the file", where)
        magic, *_, name, extra = _LOCAL.unpack_from(self._file.data.data, at)
        start = at + _LOCAL.size + name + extra
        if magic != _MAGIC:
            raise _fault(f"header at {at} not found", where)
        if info.flag_bits & _ENCRYPTED:
            raise _fault("the member is encrypted", where)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _fault(f"unsupported compression {info.compress_type}", where)
        if info.compress_size < 0 or start + info.compress_size > size:
            raise _fault(
                f"{info.compress_size} bytes at {start} exceed the {size} bytes of the file", where
            )
        is_stored = info.compress_type == zipfile.ZIP_STORED
        most = info.compress_size * (1 if is_stored else _MAX_RATIO)
        if info.file_size > most or (is_stored and info.file_size < most):
            raise _fault(
                f"{info.file_size} bytes cannot be stored in {info.compress_size} bytes", where
            )
        return Member(self._file, info, start)


class _ViewFile(io.RawIOBase):
    """The bytes of a mapped file as a file object: one version of the file, not two."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._data.size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._data.size if size is None or size < 0 else self._at + size
        found = self._data[self._at : end].tobytes()
        self._at += len(found)
        return found


def _version(name: str, stem: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name[len(stem) :].split(".") if part)


def _fault(message: str, where: str) -> FrontendError:
    return FrontendError(message, code="MODEL_INVALID", where=where)
