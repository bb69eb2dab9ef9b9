"""Context binaries and their sections as containers: prepared graphs, and perhaps their models.

The manifest says what the file is for; the plan and the model of each graph are blobs of JSON,
which are read when the graph is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from dovetail.arguments import check_arguments
from dovetail.container._decoding import decode_json
from dovetail.container._format import MAX_MANIFEST_BYTES, Kind, damaged
from dovetail.container._graphs import dump_graph, dump_tensor, load_graph, load_tensor
from dovetail.container._manifest import (
    GraphEntry,
    Index,
    Manifest,
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
from dovetail.container._versions import version_of
from dovetail.container._writer import BlobTable, container_parts
from dovetail.container.memory import read_only
from dovetail.container.producer import Producer
from dovetail.errors import ContainerError, GraphError
from dovetail.ir import Array, Blob, Graph, Tensor


class ContextManifest(Manifest, frozen=True):
    """The manifest of a context binary or of a section.

    Attributes:
        producer: The program that created the file.
        backend: Name of the backend that it is for.
        options: The backend's options that differ from their defaults.
        fingerprint: Facts that the graphs depend on.
        op_packages: Versions of the op packages that the graphs use.
        tensors: Tensors that graphs share.
        graphs: The graphs, in order.
        names: Blob of each key of the image.
        opaque: Blob with the graphs of a backend that cannot describe them.
        is_whole: Whether the graphs can be restored only together.
    """

    producer: Producer
    backend: str
    options: dict[str, Any]
    fingerprint: dict[str, str]
    op_packages: dict[str, str]
    tensors: tuple[TensorEntry, ...]
    graphs: tuple[PreparedEntry, ...]
    names: dict[str, Index]
    opaque: Index | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContextGraph:
    """A prepared graph to be written.

    Attributes:
        name: Its name.
        plan: The backend's plan, of JSON types; None if it is in an opaque blob.
        inputs, outputs: Its interface, with context tensors; none of a section.
        shared: Names of the context tensors that it uses.
        model: The graph itself, to be embedded; None to leave it out.
        digest: Identity of the graph with its weights; of a section, that of its base.
        config: Settings of the graph that differ from their defaults.
        observed: Names of tensors that watches receive; `all_observed` if these are all tensors.
        all_observed: See `observed`.
        added_outputs: Names of tensors that became outputs when the graph was finalized.
        updated: The tensors that a section has.
        memory_bytes: Memory that it takes once loaded, as far as the backend knows.
    """

    name: str
    plan: Any
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    shared: tuple[str, ...] = ()
    model: Graph | None = None
    digest: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    observed: tuple[str, ...] = ()
    all_observed: bool = False
    added_outputs: tuple[str, ...] = ()
    updated: tuple[Tensor, ...] = ()
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextContent:
    """The content of a context binary or section to be written; attributes as in the manifest.

    Attributes:
        blobs: The blobs of the image by key.
        is_section: Whether it is a section.
    """

    producer: Producer
    backend: str
    options: Mapping[str, Any]
    fingerprint: Mapping[str, str]
    op_packages: Mapping[str, str]
    tensors: tuple[Tensor, ...] = ()
    graphs: tuple[StoredContextGraph, ...]
    blobs: Mapping[str, Array]
    opaque: bytes = b""
    is_whole: bool = False
    is_section: bool = False

    def parts(self, where: str = "context binary") -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file in order; equal contents produce equal bytes.

        Args:
            where: Name of the file, for errors.

        Raises:
            ContainerError: The manifest exceeds a limit of the format.
            GraphError: A model is not well formed.
        """
        table = BlobTable()
        models: dict[str, GraphEntry] = {}
        graphs = tuple(_dump(graph, table, models) for graph in self.graphs)
        names = {key: table.add(Blob(self.blobs[key])) for key in sorted(self.blobs)}
        opaque = table.add(Blob(np.frombuffer(self.opaque, np.uint8))) if self.opaque else None
        minor, requires = version_of(models.values())
        manifest = ContextManifest(
            (),
            self.producer,
            self.backend,
            dict(self.options),
            dict(self.fingerprint),
            dict(self.op_packages),
            tuple(dump_tensor(tensor, table, "context") for tensor in self.tensors),
            graphs,
            names,
            opaque,
            self.is_whole,
            minor=minor,
            requires=requires,
        )
        kind = Kind.SECTION if self.is_section else Kind.CONTEXT
        yield from container_parts(kind, manifest, table, where)


def _dump(
    graph: StoredContextGraph, table: BlobTable, models: dict[str, GraphEntry]
) -> PreparedEntry:
    where = f"graph '{graph.name}'"
    model = None
    if graph.model is not None:
        models[graph.name] = entry = dump_graph(graph.model, table)
        model = table.add(_json_blob(entry))
    return PreparedEntry(
        graph.name,
        tuple(dump_tensor(tensor, table, where) for tensor in graph.inputs),
        tuple(dump_tensor(tensor, table, where) for tensor in graph.outputs),
        graph.shared,
        None if graph.plan is None else table.add(_json_blob(graph.plan)),
        model,
        graph.digest,
        dict(graph.config),
        graph.observed,
        graph.all_observed,
        graph.added_outputs,
        tuple(dump_tensor(tensor, table, where) for tensor in graph.updated),
        graph.memory_bytes,
    )


def _json_blob(value: object) -> Blob:
    return Blob(np.frombuffer(msgspec.json.encode(value, order="deterministic"), np.uint8))


def graph_digest(graph: Graph) -> str:
    """Return the identity of a graph: of its structure, its encodings and its data."""
    table = BlobTable()
    entry = dump_graph(graph, table)
    text = msgspec.json.encode((entry, [blob.hash for blob in table.blobs]), order="deterministic")
    return Blob(np.frombuffer(text, np.uint8)).hash


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
        container = container_in(read_only(data), where, _kind(section), ContextManifest)
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
        index = self._graphs[name].model
        if index is None:
            return None
        where = self._of(name, "model")
        entry = decode_json(self._json(index), where, GraphEntry)
        if entry.name != name:
            raise ManifestError(f"the model has the name '{entry.name}'", where=where)
        return load_graph(entry, self._blobs, where)

    @cached_property
    def blobs(self) -> Mapping[str, Array]:
        """The blobs of the image by key, read when they are used."""
        return _Named(self.manifest.names, self._blobs)

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
                f"the file is damaged: {len(faults)} fault(s)",
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


def _check(container: Container[ContextManifest]) -> None:
    """Raise unless names are unique and every index has a blob.

    Raises:
        ContainerError: They are not, or padding is damaged.
    """
    check_padding(container)
    manifest, where = container.manifest, container.where
    if len({entry.name for entry in manifest.graphs}) < len(manifest.graphs):
        raise ManifestError("duplicate graph name", where=f"{where}: $.graphs")
    own = (index for entry in manifest.graphs for index in (entry.plan, entry.model))
    used = [i for i in (*manifest.names.values(), manifest.opaque, *own) if i is not None]
    if used and max(used) >= len(manifest.blobs):
        raise ManifestError(
            f"blob {max(used)} not found; the file has {len(manifest.blobs)}", where=where
        )
