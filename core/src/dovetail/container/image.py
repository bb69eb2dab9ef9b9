"""Images of contexts as bytes: a container of the kind CONTEXT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.container._format import Kind, damaged
from dovetail.container._manifest import Index, Manifest, ManifestError
from dovetail.container._reader import container_in
from dovetail.container._writer import BlobTable, container_parts
from dovetail.container.memory import read_only
from dovetail.ir import Array, Blob


class ImageManifest(Manifest, frozen=True):
    """The manifest of an image.

    Attributes:
        fingerprint: Facts that the graphs depend on.
        graphs: The plan of each graph.
        names: Blob of each key.
        opaque: Blob with the graphs of a backend that cannot describe them.
    """

    fingerprint: dict[str, str]
    graphs: dict[str, Any]
    names: dict[str, Index]
    opaque: Index | None = None


@dataclass(frozen=True, slots=True)
class ImageContent:
    """The content of an image, of plain types.

    Attributes:
        fingerprint: Facts that the graphs depend on.
        graphs: The plan of each graph, of JSON types, by name.
        blobs: Bytes by key, aligned to 64 bytes.
        opaque: The graphs as one blob.
    """

    fingerprint: Mapping[str, str]
    graphs: Mapping[str, Any]
    blobs: Mapping[str, Array]
    opaque: bytes = b""


def pack_image(content: ImageContent) -> bytes:
    """Return an image as bytes; equal images are equal bytes.

    Raises:
        ContainerError: The manifest exceeds a limit of the format.
    """
    table = BlobTable()
    names = {key: table.add(Blob(array)) for key, array in sorted(content.blobs.items())}
    opaque = table.add(Blob(np.frombuffer(content.opaque, np.uint8))) if content.opaque else None
    manifest = ImageManifest((), dict(content.fingerprint), dict(content.graphs), names, opaque)
    return b"".join(container_parts(Kind.CONTEXT, manifest, table, "image"))


def unpack_image(data: bytes | memoryview, where: str = "image") -> ImageContent:
    """Return the content of an image after checking all of its bytes.

    Args:
        data: From `pack_image`.
        where: Name of the bytes, for errors.

    Raises:
        ContainerError: The bytes are no image, are cut short or altered, or have a newer format.
    """
    array = read_only(np.frombuffer(data, np.uint8))
    container = container_in(array, where, Kind.CONTEXT, ImageManifest)
    manifest = container.manifest
    faults = list(container.padding_faults())
    for i in range(len(manifest.blobs)):
        faults += container.chunk_faults(i)
    if faults:
        raise damaged("; ".join(fault.message for fault in faults), where)
    opaque = () if manifest.opaque is None else (manifest.opaque,)
    for index in (*manifest.names.values(), *opaque):
        if index >= len(manifest.blobs):
            raise ManifestError(f"blob {index} not found", where=where)
    blobs = {key: container.view(index) for key, index in manifest.names.items()}
    whole = b"".join(container.view(index).tobytes() for index in opaque)
    return ImageContent(manifest.fingerprint, manifest.graphs, blobs, whole)
