"""Content of context binaries and sections that are to be written."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from dovetail.container._format import Kind
from dovetail.container._graphs import dump_graph, dump_tensor
from dovetail.container._manifest import (
    BlobEntry,
    GraphEntry,
    Index,
    Manifest,
    ManifestError,
    PreparedEntry,
    TensorEntry,
)
from dovetail.container._versions import version_of
from dovetail.container._writer import BlobTable, container_parts
from dovetail.container.producer import Producer
from dovetail.ir import Blob, Graph, Tensor


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
        device: The settings of the device that differ from their defaults.
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
    device: dict[str, Any] = msgspec.field(default_factory=dict)


class StoredContextGraph(msgspec.Struct, frozen=True, kw_only=True):
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
    config: Mapping[str, Any] = msgspec.field(default_factory=dict)
    observed: tuple[str, ...] = ()
    all_observed: bool = False
    added_outputs: tuple[str, ...] = ()
    updated: tuple[Tensor, ...] = ()
    memory_bytes: int = 0


class ContextContent(msgspec.Struct, frozen=True, kw_only=True):
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
    blobs: Mapping[str, Blob]
    opaque: bytes = b""
    is_whole: bool = False
    device: Mapping[str, Any] = msgspec.field(default_factory=dict)
    is_section: bool = False

    def parts(self, where: str = "context binary") -> Iterator[bytes | memoryview]:
        """Yield the bytes of the file in order; equal contents produce equal bytes.

        Args:
            where: Name of the file, for errors.

        Raises:
            ContainerError: The manifest exceeds a limit of the format.
            GraphError: A model is not well formed.
        """
        yield from container_parts(self.kind, *self.dumped(), where)

    @property
    def kind(self) -> Kind:
        """The kind of the file."""
        return Kind.SECTION if self.is_section else Kind.CONTEXT

    def dumped(self, known: Iterable[BlobEntry] = ()) -> tuple[ContextManifest, BlobTable]:
        """Return the manifest without its table of blobs, and the blobs.

        Args:
            known: Entries of blobs of another file, which are not read.

        Raises:
            GraphError: A model is not well formed.
        """
        table = BlobTable(known)
        models: dict[str, GraphEntry] = {}
        tensors = tuple(dump_tensor(tensor, table, "context") for tensor in self.tensors)
        graphs = tuple(_dump(graph, table, models) for graph in self.graphs)
        names = {key: table.add(self.blobs[key]) for key in sorted(self.blobs)}
        opaque = table.add(Blob(np.frombuffer(self.opaque, np.uint8))) if self.opaque else None
        own = (t for g in graphs for t in (*g.inputs, *g.outputs, *g.updated))
        more = ["device"] if self.device else []
        minor, requires = version_of(models.values(), (*tensors, *own), more)
        manifest = ContextManifest(
            (),
            self.producer,
            self.backend,
            dict(self.options),
            dict(self.fingerprint),
            dict(self.op_packages),
            tensors,
            graphs,
            names,
            opaque,
            self.is_whole,
            dict(self.device),
            minor=minor,
            requires=requires,
        )
        return manifest, table


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
    try:
        text = msgspec.json.encode(value, order="deterministic")
    except RecursionError as error:
        raise ManifestError("a plan or model is nested too deeply") from error
    return Blob(np.frombuffer(text, np.uint8))


def graph_digest(graph: Graph) -> str:
    """Return the identity of a graph: of its structure, its encodings and its data."""
    table = BlobTable()
    entry = dump_graph(graph, table)
    text = msgspec.json.encode((entry, [blob.hash for blob in table.blobs]), order="deterministic")
    return Blob(np.frombuffer(text, np.uint8)).hash
