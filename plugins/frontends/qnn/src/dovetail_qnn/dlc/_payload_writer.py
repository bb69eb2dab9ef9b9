"""Regions of the payload member, and the archive with all members."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO

from dovetail.ir import Blob
from dovetail_qnn.dlc._tables import LocationTable

# Weights begin at multiples of a cache line in the file, so that they can be used where they are.
_ALIGNMENT = 64
_SMALL_ALIGNMENT = 8
_LOCAL_HEADER_BYTES = 30
_ZIP64_BYTES = 20
_PADDING_ID = 0xD935  # the extra field by which Android's tools align members
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(slots=True)
class PayloadRegions:
    """Payloads one after the other; a blob of several tensors is stored once.

    Attributes:
        size: Number of bytes.
    """

    size: int = 0
    _starts: dict[Blob, int] = field(default_factory=dict)

    def add(self, blob: Blob) -> LocationTable:
        """Return the region of a blob."""
        if blob not in self._starts:
            alignment = _ALIGNMENT if blob.nbytes >= _ALIGNMENT else _SMALL_ALIGNMENT
            self._starts[blob] = -(-self.size // alignment) * alignment
            self.size = self._starts[blob] + blob.nbytes
        return LocationTable(self._starts[blob], blob.nbytes)

    def pieces(self) -> Iterable[memoryview]:
        """Yield the bytes of all regions and of the gaps between them."""
        end = 0
        for blob, start in self._starts.items():
            yield memoryview(bytes(start - end))
            yield blob.bytes.data
            blob.release()
            end = start + blob.nbytes


def write_archive(
    file: IO[bytes], payloads: tuple[str, PayloadRegions], members: Mapping[str, bytes]
) -> None:
    """Write a zip archive of stored members; equal members give equal bytes.

    Args:
        file: Open for writing, seekable.
        payloads: Name and regions of the first member.
        members: The others by name.
    """
    name, regions = payloads
    with zipfile.ZipFile(file, "w") as archive:
        # the vendor's files begin with the payloads, too
        _write(archive, name, regions.size, regions.pieces())
        for each, data in members.items():
            _write(archive, each, len(data), [memoryview(data)])


def _write(archive: zipfile.ZipFile, name: str, size: int, pieces: Iterable[memoryview]) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.create_system = 0
    info.file_size = size
    is_long = size >= zipfile.ZIP64_LIMIT
    start = archive.start_dir + _LOCAL_HEADER_BYTES + len(name.encode())
    start += (_ZIP64_BYTES if is_long else 0) + 4
    room = -start % _ALIGNMENT
    info.extra = struct.pack("<2H", _PADDING_ID, room) + bytes(room)
    with archive.open(info, "w", force_zip64=is_long) as member:
        for piece in pieces:
            member.write(piece)
