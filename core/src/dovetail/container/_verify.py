"""Complete verification of a container file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from dovetail.container._format import Kind
from dovetail.container._manifest import ModelManifest
from dovetail.container._reader import Container, open_container
from dovetail.container.model import model_of
from dovetail.errors import ContainerError, Problem

# These files are not damaged; they are of another kind.
_UNVERIFIABLE = {"CONTAINER_NOT_ONE", "CONTAINER_VERSION", "CONTAINER_KIND"}


def verify(path: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Check all of a model file: header, manifest, padding, every blob, every graph.

    Returns:
        Every fault; none if the file is intact. After damage to the header or the manifest, the
        parts that depend on it are not checked; after damage to blobs, the graphs are not.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: The file is not a container, contains no model, or has a newer format.
    """
    try:
        container = open_container(path, Kind.MODEL, ModelManifest)
    except ContainerError as error:
        if error.code in _UNVERIFIABLE:
            raise
        return _problems_of(error)
    faults = tuple(container.padding_faults())
    damaged = tuple(p for i in range(len(container.manifest.blobs)) for p in _faults(container, i))
    return (*faults, *(damaged or _graph_faults(container)))


def _faults(container: Container[ModelManifest], index: int) -> Iterator[Problem]:
    chunks = list(container.chunk_faults(index))
    yield from chunks
    wanted = container.manifest.blobs[index].sha256
    if not chunks and hashlib.sha256(container.view(index).data).hexdigest() != wanted:
        yield Problem(f"blob {index} does not have the hash {wanted}", container.where)


def _graph_faults(container: Container[ModelManifest]) -> tuple[Problem, ...]:
    try:
        model_of(container, container.blobs("manifest"))
    except ContainerError as error:
        return _problems_of(error)
    return ()


def _problems_of(error: ContainerError) -> tuple[Problem, ...]:
    return error.problems or (Problem(error.message, error.where, error.hint),)
