"""Complete verification of a container file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from dovetail.container._decoding import M
from dovetail.container._format import Kind
from dovetail.container._manifest import ModelManifest
from dovetail.container._reader import Container, kind_of, open_container
from dovetail.container.context import ContextFile
from dovetail.container.context_content import ContextManifest
from dovetail.container.model import model_of
from dovetail.errors import ContainerError, Problem

# These files are not damaged; they are of another kind.
_UNVERIFIABLE = {"CONTAINER_NOT_ONE", "CONTAINER_VERSION", "CONTAINER_KIND"}


def verify(path: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Check all of a file: header, manifest, padding, every blob, every graph.

    Returns:
        Every fault; none if the file is intact. After damage to the header or the manifest, the
        parts that depend on it are not checked; after damage to blobs, the graphs are not.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: The file is not a container, or has a newer format.
    """
    try:
        kind = kind_of(path)
        if kind is Kind.MODEL:
            model = open_container(path, kind, ModelManifest)
            return _all_faults(model, lambda: _model_faults(model))
        context = open_container(path, kind, ContextManifest)
        return _all_faults(context, lambda: _context_faults(context))
    except ContainerError as error:
        if error.code in _UNVERIFIABLE:
            raise
        return error.as_problems()


def _all_faults(
    container: Container[M], graph_faults: Callable[[], Iterable[Problem]]
) -> tuple[Problem, ...]:
    faults = tuple(container.padding_faults())
    damaged = tuple(p for i in range(len(container.manifest.blobs)) for p in _faults(container, i))
    return (*faults, *(damaged or graph_faults()))


def _faults(container: Container[M], index: int) -> Iterator[Problem]:
    chunks = list(container.chunk_faults(index))
    yield from chunks
    wanted = container.manifest.blobs[index].sha256
    if not chunks and hashlib.sha256(container.view(index).data).hexdigest() != wanted:
        yield Problem(f"blob {index} does not have the hash {wanted}", container.where)


def _model_faults(container: Container[ModelManifest]) -> Iterator[Problem]:
    return _raised(lambda: model_of(container, container.blobs("manifest")))


def _context_faults(container: Container[ContextManifest]) -> Iterator[Problem]:
    """Yield what is wrong with the graphs; the backend alone knows its plans."""
    if any(container.padding_faults()):  # reported already
        return
    file = ContextFile(container, "manifest")
    yield from _raised(file.tensors)
    for name in file.graphs:
        for read in (file.interface, file.updated, file.plan, file.model):
            yield from _raised(partial(read, name))


def _raised(read: Callable[[], object]) -> Iterator[Problem]:
    try:
        read()
    except ContainerError as error:
        yield from error.as_problems()
