"""Opening of containers: everything but the blobs is checked at once, blobs when they are used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, Literal

import msgspec
import numpy as np

from dovetail.container._decoding import M, decode_manifest
from dovetail.container._format import (
    CHUNK_BYTES,
    HEADER_BYTES,
    Bytes,
    Header,
    Kind,
    Placement,
    check_manifest,
    chunk_checksums,
    chunk_count,
    damaged,
    placement_of,
    unpack_header,
)
from dovetail.container._manifest import BlobEntry, ManifestError
from dovetail.container._mapping import MappedBlob, MappedFile
from dovetail.container.memory import aligned_empty
from dovetail.errors import ConfigError, ContainerError, Problem, suggest_name
from dovetail.files import open_regular, unreadable
from dovetail.ir import Blob

Integrity = Literal["bind", "manifest"]

_KIND_HINTS: Final = {
    Kind.MODEL: "pass a model as `dovetail convert` writes it; `net-run --retrieve-context` and "
    "`Session.from_context` take contexts",
    Kind.CONTEXT: "pass a context as `dovetail context-binary-generator` writes it; "
    "`net-run --model` and `Session` take models",
}


class Container(msgspec.Struct, Generic[M], frozen=True):
    """An open container whose header, manifest and sizes are checked, but not its padding.

    Attributes:
        where: Name of the file, for errors.
        data: All bytes of the file.
        file: The mapped file; None if the bytes are in private memory.
        header: Its header.
        manifest: Its manifest.
        placement: Positions of its blobs and its padding.
    """

    where: str
    data: Bytes
    file: MappedFile | None
    header: Header
    manifest: M
    placement: Placement

    def view(self, index: int) -> Bytes:
        """Return the bytes of a blob, unchecked."""
        start = self.placement.offsets[index]
        return self.data[start : start + self.manifest.blobs[index].size]

    def padding_faults(self) -> Iterator[Problem]:
        """Yield every stretch of padding that is not zero."""
        for start, end in self.placement.gaps:
            if self.data[start:end].any():
                yield Problem(f"the padding in bytes {start} to {end - 1} is not zero", self.where)

    def chunk_faults(self, index: int) -> Iterator[Problem]:
        """Yield every damaged chunk of a blob."""
        wanted = self.manifest.blobs[index].crc32
        start = self.placement.offsets[index]
        for i, found in enumerate(chunk_checksums(self.view(index))):
            if found != wanted[i]:
                first = start + i * CHUNK_BYTES
                last = min(first + CHUNK_BYTES, start + self.manifest.blobs[index].size) - 1
                yield Problem(f"blob {index} is damaged in bytes {first} to {last}", self.where)

    def blobs(self, integrity: Integrity) -> tuple[Blob, ...]:
        """Return all blobs without reading them.

        Args:
            integrity: "bind" to check each blob when it is first used, "manifest" to check none.
        """
        return tuple(
            self._blob(i, self._checker(i) if integrity == "bind" else None)
            for i in range(len(self.manifest.blobs))
        )

    def _blob(self, index: int, check: Callable[[], None] | None) -> Blob:
        entry = self.manifest.blobs[index]
        if self.file is None:
            return Blob(self.view(index), hash=entry.sha256, check=check)
        start = self.placement.offsets[index]
        return MappedBlob(self.file, start, entry.size, hash=entry.sha256, check=check)

    def _checker(self, index: int) -> Callable[[], None]:
        def check() -> None:
            faults = list(self.chunk_faults(index))
            if faults:
                raise damaged("; ".join(p.message for p in faults), self.where)

        return check


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Return the kind of a container; only its header is read.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is not a container, has a newer format, or the header is damaged.
    """
    try:
        with open_regular(Path(path)) as file:
            raw = file.read(HEADER_BYTES)
    except OSError as error:
        raise unreadable(Path(path), error) from error
    return unpack_header(np.frombuffer(raw, np.uint8), os.fspath(path)).kind


def open_container(
    path: str | os.PathLike[str], kind: Kind, to: type[M], *, mapped: bool = True
) -> Container[M]:
    """Open a container, without checking its padding and its blobs.

    Args:
        path: The file.
        kind: The required kind.
        to: Type of its manifest.
        mapped: Whether the file is mapped; otherwise the whole file is read into memory.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: The file is not a container of this kind, has a newer format, or is damaged.
    """
    where = os.fspath(path)
    file = MappedFile(where) if mapped else None
    data = _read(where) if file is None else file.data
    return container_in(data, where, kind, to, file)


def container_in(
    data: Bytes, where: str, kind: Kind, to: type[M], file: MappedFile | None = None
) -> Container[M]:
    """Return the container in these bytes; see `open_container`.

    Args:
        data: All bytes of the container.
        where: Name of the bytes, for errors.
        kind: The required kind.
        to: Type of its manifest.
        file: The file, if the bytes are mapped.
    """
    header = unpack_header(data, where)
    raw = check_manifest(header, data, where)
    if header.kind is not kind:
        raise ContainerError(
            f"expected a container with a {kind.name.lower()}, got a {header.kind.name.lower()}",
            code="CONTAINER_KIND",
            where=where,
            hint=_KIND_HINTS.get(kind, f"pass a file that contains a {kind.name.lower()}"),
        )
    manifest = decode_manifest(raw, to, where)
    _check_table(manifest.blobs, where)
    placement = placement_of(header.manifest_bytes, [entry.size for entry in manifest.blobs])
    if placement.file_bytes != header.file_bytes:
        raise ManifestError(
            f"the blobs would end at byte {placement.file_bytes}, the file at {header.file_bytes}",
            where=f"{where}: $.blobs",
        )
    return Container(where, data, file, header, manifest, placement)


def check_padding(container: Container[M]) -> None:
    """Raise if a container's padding is damaged.

    Raises:
        ContainerError: It is.
    """
    faults = list(container.padding_faults())
    if faults:
        raise damaged("; ".join(p.message for p in faults), container.where)


def check_integrity(integrity: str) -> None:
    """Raise if `integrity` is unknown.

    Raises:
        ConfigError: It is neither "bind" nor "manifest".
    """
    if integrity not in ("bind", "manifest"):
        raise ConfigError(
            f"unknown integrity '{integrity}'",
            hint=suggest_name(integrity, ("bind", "manifest")),
        )


def _read(path: str) -> Bytes:
    """Return all bytes of a file, in aligned memory."""
    try:
        with open_regular(Path(path)) as file:
            data = aligned_empty(os.fstat(file.fileno()).st_size)
            count = 0
            while read := file.readinto(data[count:].data):
                count += read
    except OSError as error:
        raise unreadable(Path(path), error) from error
    return data[:count]


def _check_table(entries: tuple[BlobEntry, ...], where: str) -> None:
    known: set[str] = set()
    for i, entry in enumerate(entries):
        location = f"{where}: $.blobs[{i}]"
        if entry.sha256 in known:
            raise ManifestError("duplicate blob", where=location)
        known.add(entry.sha256)
        if len(entry.crc32) != chunk_count(entry.size):
            raise ManifestError(
                f"{len(entry.crc32)} checksums do not match {chunk_count(entry.size)} chunks",
                where=location,
            )
