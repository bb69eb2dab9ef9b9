"""The complete check of a container file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from dovetail.container._format import Kind
from dovetail.container._manifest import ModelManifest
from dovetail.container._reader import Container, open_container
from dovetail.container.model import model_of
from dovetail.errors import ContainerError, Problem

# Not damage: what the file is, is known, and it is not what can be verified.
_REFUSED = {"CONTAINER_NOT_ONE", "CONTAINER_VERSION", "CONTAINER_KIND"}


def verify(path: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Check all of a model file: header, manifest, padding, every blob, every graph.

    Returns:
        Every fault; none if the file is what was written. Where a part is damaged on which others
        depend (header, then manifest, then blobs), the others are not judged.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is not a container, holds no model, or is of a newer format.
    """
    try:
        container = open_container(path, Kind.MODEL, ModelManifest)
    except ContainerError as error:
        if error.code in _REFUSED:
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
        yield Problem(f"blob {index} is not the one with the hash {wanted}", container.where)


def _graph_faults(container: Container[ModelManifest]) -> tuple[Problem, ...]:
    try:
        model_of(container, container.blobs("manifest"))
    except ContainerError as error:
        return _problems_of(error)
    return ()


def _problems_of(error: ContainerError) -> tuple[Problem, ...]:
    return error.problems or (Problem(error.message, error.where, error.hint),)
