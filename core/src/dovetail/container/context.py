"""Open context binaries and sections: prepared graphs, and perhaps their models.

The manifest says what the file is for; the plan and the model of each graph are blobs of JSON,
which are read when the graph is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from dovetail.arguments import check_arguments
from dovetail.container._decoding import decode_json
from dovetail.container._format import MAX_MANIFEST_BYTES, Kind, damaged
from dovetail.container._graphs import load_graph, load_tensor
from dovetail.container._manifest import (
    GraphEntry,
    ManifestError,
    PreparedEntry,
    TensorEntry,
)
from dovetail.container._reader import (
    Container,
    Integrity,
    check_integrity,
    check_padding,
    container_in,
    open_container,
)
from dovetail.container.context_content import ContextManifest
from dovetail.container.memory import read_only
from dovetail.errors import ContainerError, GraphError, counted
from dovetail.ir import Array, Blob, Graph, Tensor


class ContextFile:
    """An open context binary or section.

    The manifest is read and checked; plans and models are read when they are asked for, and their
    checksums are checked always. Other blobs are checked as `integrity` says. Created by `open` or
    `of`.

    Attributes:
        where: Name of the file, for errors.
    """

    def __init__(self, container: Container[ContextManifest], integrity: Integrity) -> None:
        self.where = container.where
        self._container = container
        self._blobs = container.blobs(integrity)
        self._graphs = {entry.name: entry for entry in container.manifest.graphs}
        _check(container)

    @classmethod
    @check_arguments
    def open(
        cls,
        path: str | os.PathLike[str],
        integrity: Integrity = "manifest",
        *,
        section: bool = False,
        mapped: bool = True,
    ) -> ContextFile:
        """Open a file.

        Args:
            path: The file.
            integrity: "manifest" to check header, manifest, padding, plans and models; "bind" to
                check other blobs, too, when they are first used.
            section: Whether it is a section.
            mapped: Whether the file stays mapped. It must then not be changed in place. Otherwise
                the whole file is read into memory.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: It is of another kind, has a newer format, or is damaged.
            ConfigError: `integrity` is unknown.
        """
        check_integrity(integrity)
        container = open_container(path, _kind(section), ContextManifest, mapped=mapped)
        return cls(container, integrity)

    @classmethod
    def of(
        cls,
        data: Array,
        where: str = "context binary",
        integrity: Integrity = "manifest",
        *,
        section: bool = False,
    ) -> ContextFile:
        """Open the bytes of a file, which must stay unchanged.

        Args:
            data: The bytes: uint8, one axis.
            where: Name of the bytes, for errors.
            integrity: As for `open`.
            section: Whether it is a section.

        Raises:
            ContainerError: As for `open`.
        """
        check_integrity(integrity)
        # what a section has is copied when it is used: the alignment of its numbers is enough
        aligned = read_only(data, 8) if section else read_only(data)
        container = container_in(aligned, where, _kind(section), ContextManifest)
        return cls(container, integrity)

    @property
    def manifest(self) -> ContextManifest:
        """The manifest."""
        return self._container.manifest

    @property
    def version(self) -> int:
        """Version of the container format."""
        return self._container.header.version

    @property
    def is_section(self) -> bool:
        """True if the file is a section."""
        return self._container.header.kind is Kind.SECTION

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return self._container.header.file_bytes

    @property
    def graphs(self) -> Mapping[str, PreparedEntry]:
        """The entries of the graphs by name, in order."""
        return self._graphs

    def interface(self, name: str) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return the inputs and outputs of a graph.

        Raises:
            ContainerError: They are damaged.
        """
        entry, where = self._graphs[name], self._of(name, "interface")
        return self._tensors(entry.inputs, where), self._tensors(entry.outputs, where)

    def updated(self, name: str) -> tuple[Tensor, ...]:
        """Return the tensors of a graph's section.

        Raises:
            ContainerError: They are damaged.
        """
        return self._tensors(self._graphs[name].updated, self._of(name, "section"))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that graphs share.

        Raises:
            ContainerError: They are damaged.
        """
        return self._tensors(self.manifest.tensors, f"{self.where}: $.tensors")

    def plan(self, name: str) -> Any:
        """Return the plan of a graph, of JSON types; None if it is in the opaque blob.

        Raises:
            ContainerError: It is damaged.
        """
        index = self._graphs[name].plan
        return None if index is None else decode_json(self._json(index), self._of(name, "plan"))

    def model(self, name: str) -> Graph | None:
        """Return a graph itself; None if it is not embedded.

        Raises:
            ContainerError: It is damaged.
        """
        entry = self.model_entry(name)
        return None if entry is None else load_graph(entry, self._blobs, self._of(name, "model"))

    def model_entry(self, name: str) -> GraphEntry | None:
        """Return a graph itself as it is in the file; None if it is not embedded.

        Raises:
            ContainerError: It is damaged.
        """
        index = self._graphs[name].model
        if index is None:
            return None
        where = self._of(name, "model")
        entry = decode_json(self._json(index), where, GraphEntry)
        if entry.name != name:
            raise ManifestError(f"the model has the name '{entry.name}'", where=where)
        return entry

    def tensors_of(self, name: str) -> tuple[Tensor, ...]:
        """Return the tensors of a graph without its nodes; none if it is not embedded.

        Raises:
            ContainerError: They are damaged.
        """
        entry = self.model_entry(name)
        return () if entry is None else self._tensors(entry.tensors, self._of(name, "model"))

    @cached_property
    def blobs(self) -> Mapping[str, Array]:
        """The blobs of the image by key, read when they are used."""
        return _Named(self.manifest.names, self._blobs)

    def stored_blobs(self) -> dict[str, Blob]:
        """Return the blobs of the image by key, with their hashes."""
        return {key: self._blobs[index] for key, index in self.manifest.names.items()}

    @property
    def opaque(self) -> bytes:
        """The graphs of a backend that cannot describe them; empty if there are none."""
        index = self.manifest.opaque
        return b"" if index is None else self._blobs[index].bytes.tobytes()

    @property
    def guard(self) -> Callable[[], None] | None:
        """A check before arrays over a mapped file are read again; None without a mapping."""
        file = self._container.file
        return None if file is None else file.check

    def sizes(self) -> tuple[int, ...]:
        """Return the size of each blob."""
        return tuple(blob.size for blob in self.manifest.blobs)

    def verify(self) -> None:
        """Check every byte of the blobs.

        Raises:
            ContainerError: Some are damaged; all damage is listed.
        """
        faults = [f for i in range(len(self._blobs)) for f in self._container.chunk_faults(i)]
        if faults:
            raise ContainerError(
                f"the file is damaged: {counted(len(faults), 'fault')}",
                where=self.where,
                hint="create or fetch the file again",
                problems=faults,
            )

    def release(self) -> None:
        """Drop the file's bytes from memory until they are used again."""
        for blob in self._blobs:
            blob.release()

    def _json(self, index: int) -> memoryview:
        """Return the bytes of a blob of JSON, which are checked."""
        size = self.manifest.blobs[index].size
        if size > MAX_MANIFEST_BYTES:
            raise ManifestError(
                f"a plan or model of {size} bytes; the maximum is {MAX_MANIFEST_BYTES}",
                where=self.where,
            )
        if faults := list(self._container.chunk_faults(index)):
            raise damaged("; ".join(fault.message for fault in faults), self.where)
        return self._container.view(index).data

    def _tensors(self, entries: tuple[TensorEntry, ...], where: str) -> tuple[Tensor, ...]:
        try:
            return tuple(load_tensor(entry, self._blobs, where) for entry in entries)
        except GraphError as error:
            raise ManifestError(error.message, where=where, problems=error.problems) from error

    def _of(self, name: str, what: str) -> str:
        return f"{self.where}: {what} of graph '{name}'"


class _Named(Mapping[str, Array]):
    """The bytes of blobs by key."""

    def __init__(self, names: Mapping[str, int], blobs: tuple[Blob, ...]) -> None:
        self._names = names
        self._blobs = blobs

    def __getitem__(self, key: str) -> Array:
        return self._blobs[self._names[key]].bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _kind(section: bool) -> Kind:
    return Kind.SECTION if section else Kind.CONTEXT


def _check_names(entries: Sequence[TensorEntry | PreparedEntry], what: str, where: str) -> None:
    names = {entry.name for entry in entries}
    if len(names) < len(entries):
        raise ManifestError(f"duplicate {what} name", where=where)
    if "" in names:
        raise ManifestError(f"empty {what} name", where=where)


def _check(container: Container[ContextManifest]) -> None:
    """Raise unless names are unique and every index has a blob.

    Raises:
        ContainerError: They are not, names are empty, or padding is damaged.
    """
    check_padding(container)
    manifest, where = container.manifest, container.where
    _check_names(manifest.graphs, "graph", f"{where}: $.graphs")
    _check_names(manifest.tensors, "tensor", f"{where}: $.tensors")
    for i, entry in enumerate(manifest.graphs):
        location = f"{where}: $.graphs[{i}]"
        _check_names((*entry.inputs, *entry.outputs), "input or output", location)
        _check_names(entry.updated, "tensor", f"{location}.updated")
    own = (index for entry in manifest.graphs for index in (entry.plan, entry.model))
    used = [i for i in (*manifest.names.values(), manifest.opaque, *own) if i is not None]
    if used and max(used) >= len(manifest.blobs):
        raise ManifestError(
            f"blob {max(used)} not found; the file has {len(manifest.blobs)}", where=where
        )
