"""Writing of containers: each blob once, and atomically."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator

import msgspec

from dovetail.container._decoding import decode_manifest
from dovetail.container._format import (
    CHUNK_BYTES,
    HEADER_BYTES,
    MAX_MANIFEST_BYTES,
    Header,
    Kind,
    chunk_checksums,
    damaged,
    pack_header,
    placement_of,
)
from dovetail.container._manifest import (
    BlobEntry,
    Manifest,
    ManifestError,
    encode_manifest,
)
from dovetail.files import atomic_write
from dovetail.ir import Blob


class BlobTable:
    """The blobs of a container to be written, without duplicates, in order of first use.

    Args:
        known: Entries of blobs of another file, which are not read here.
    """

    def __init__(self, known: Iterable[BlobEntry] = ()) -> None:
        self._known = {entry.sha256: entry for entry in known}
        self._entries: dict[str, BlobEntry] = {}
        self._blobs: list[Blob] = []
        self._indices: dict[str, int] = {}

    def add(self, blob: Blob) -> int:
        """Return the index of a blob; add the blob if its content is new.

        Its bytes are read once and released, so that a large model is never in memory as a whole.
        """
        if blob.is_hashed and blob.hash in self._indices:
            return self._indices[blob.hash]
        if blob.is_hashed and (entry := self._known.get(blob.hash)) is not None:
            return self._append(blob, entry)
        data = blob.bytes  # stay in memory for both sums
        if blob.hash not in self._indices:
            checksums = tuple(chunk_checksums(data))
            self._append(blob, BlobEntry(blob.hash, blob.nbytes, checksums))
        del data
        blob.release()
        return self._indices[blob.hash]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The blobs by index."""
        return tuple(self._blobs)

    @property
    def entries(self) -> tuple[BlobEntry, ...]:
        """The entries of the blobs in a manifest."""
        return tuple(self._entries.values())

    def _append(self, blob: Blob, entry: BlobEntry) -> int:
        self._entries[blob.hash] = entry
        self._indices[blob.hash] = len(self._blobs)
        self._blobs.append(blob)
        return self._indices[blob.hash]


def write_container(
    path: str | os.PathLike[str], kind: Kind, manifest: Manifest, table: BlobTable
) -> None:
    """Write a container; an error leaves no file, or the old one.

    Args:
        path: The file; an existing one is replaced.
        kind: Its content.
        manifest: The manifest; its `blobs` are filled in here.
        table: The blobs that the manifest refers to.

    Raises:
        ContainerError: The file cannot be written, a blob is damaged, or the manifest exceeds a
            limit of the format.
    """
    with atomic_write(path) as file:
        for part in container_parts(kind, manifest, table, str(path)):
            file.write(part)


def container_parts(
    kind: Kind, manifest: Manifest, table: BlobTable, where: str
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a container in order; see `write_container`.

    Args:
        kind: Its content.
        manifest: The manifest; its `blobs` are filled in here.
        table: The blobs that the manifest refers to.
        where: The file, for errors.
    """
    blobs, entries = table.blobs, table.entries
    raw = encode_manifest(msgspec.structs.replace(manifest, blobs=entries))
    if len(raw) > MAX_MANIFEST_BYTES:
        raise ManifestError(
            f"the manifest takes {len(raw)} bytes; the maximum is {MAX_MANIFEST_BYTES}",
            where=where,
            hint="write fewer graphs into one file",
        )
    # A Struct's types are checked only when it is decoded: an unreadable file must not be written.
    decode_manifest(memoryview(raw), type(manifest), where)
    placement = placement_of(len(raw), [e.size for e in entries])
    header = Header(kind, len(raw), placement.file_bytes, hashlib.sha256(raw).digest())
    yield pack_header(header)
    yield raw
    end = HEADER_BYTES + len(raw)
    for blob, start in zip(blobs, placement.offsets, strict=True):
        yield bytes(start - end)
        yield from _chunks(blob, where)
        end = start + blob.nbytes
    yield bytes(placement.file_bytes - end)


def container_size(manifest: Manifest, table: BlobTable) -> int:
    """Return the size in bytes of the file that `write_container` would write."""
    raw = encode_manifest(msgspec.structs.replace(manifest, blobs=table.entries))
    return placement_of(len(raw), [entry.size for entry in table.entries]).file_bytes


def _chunks(blob: Blob, where: str) -> Iterator[memoryview]:
    # Hashed again: the hash of a blob from an unchecked file is only a claim, and damage must not
    # be written with valid checksums.
    digest, data = hashlib.sha256(), blob.bytes
    for start in range(0, blob.nbytes, CHUNK_BYTES):
        chunk = data[start : start + CHUNK_BYTES].data
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != blob.hash:
        raise damaged(f"the data with the hash {blob.hash} are damaged", where)
    del data
    blob.release()
