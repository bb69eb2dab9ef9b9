"""What a container says of itself, without its blobs: `dovetail inspect`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from dovetail.container._encodings import load_encoding
from dovetail.container._format import Kind
from dovetail.container._manifest import (
    ArrayEntry,
    EncodingEntry,
    GraphEntry,
    ManifestError,
    ModelManifest,
    TensorEntry,
)
from dovetail.container._reader import Container, check_padding, open_container
from dovetail.container.producer import Producer
from dovetail.ir import Array, DType
from dovetail.ir.text import encoding_text


class TensorSummary(msgspec.Struct, frozen=True):
    """An input or output of a graph.

    Attributes:
        name: Its name.
        dtype: Name of its type.
        shape: Its extents.
        encoding: Its encoding in a few words, None if it has none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    encoding: str | None


class GraphSummary(msgspec.Struct, frozen=True):
    """One graph.

    Attributes:
        name: Its name.
        inputs: What the application writes, in order.
        outputs: What the application reads, in order.
        ops: How many nodes use each op, by `package::op`, sorted by name.
        nodes: Number of nodes.
        tensors: Number of tensors, params not counted.
        static_bytes: Bytes of its static tensors and tensor params, shared ones each time.
    """

    name: str
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    ops: dict[str, int]
    nodes: int
    tensors: int
    static_bytes: int


class Summary(msgspec.Struct, frozen=True):
    """A container file.

    Attributes:
        kind: What it holds: `model`.
        format_version: Of the container format.
        producer: Who made it.
        op_packages: Versions of the op packages by name.
        graphs: Its graphs, in order.
        blobs: Number of blobs.
        blob_bytes: Bytes of all blobs.
        shared_blob_bytes: Bytes of those that more than one tensor uses, each counted once.
        file_bytes: Size of the file.
    """

    kind: str
    format_version: int
    producer: Producer
    op_packages: dict[str, str]
    graphs: tuple[GraphSummary, ...]
    blobs: int
    blob_bytes: int
    shared_blob_bytes: int
    file_bytes: int


def summarize(path: str | os.PathLike[str]) -> Summary:
    """Return what a model file says of itself; header, manifest and padding alone are read.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It holds no model, is of a newer format, or is damaged there.
    """
    container = open_container(path, Kind.MODEL, ModelManifest)
    check_padding(container)
    manifest = container.manifest
    uses = Counter(i for graph in manifest.graphs for i in _data_of(graph))
    _check_indices(uses, container)
    return Summary(
        container.header.kind.name.lower(),
        container.header.version,
        manifest.producer,
        manifest.op_packages,
        tuple(_graph_summary(graph, container) for graph in manifest.graphs),
        len(manifest.blobs),
        sum(blob.size for blob in manifest.blobs),
        sum(manifest.blobs[i].size for i, count in uses.items() if count > 1),
        container.header.file_bytes,
    )


def _check_indices(uses: Counter[int], container: Container[ModelManifest]) -> None:
    count = len(container.manifest.blobs)
    if uses and max(uses) >= count:
        raise ManifestError(
            f"there is no blob {max(uses)}; there are {count}",
            where=f"{container.where}: $.graphs",
        )


def _graph_summary(graph: GraphEntry, container: Container[ModelManifest]) -> GraphSummary:
    ops = Counter(f"{node.package}::{node.op_type}" for node in graph.nodes)
    return GraphSummary(
        graph.name,
        tuple(_tensor_summary(t) for t in graph.tensors if t.kind.is_input),
        tuple(_tensor_summary(t) for t in graph.tensors if t.kind.is_output),
        dict(sorted(ops.items())),
        len(graph.nodes),
        len(graph.tensors),
        sum(container.manifest.blobs[i].size for i in _data_of(graph)),
    )


def _data_of(graph: GraphEntry) -> Iterator[int]:
    """Return the blob of every tensor and tensor param that has one."""
    params = (p.tensor for node in graph.nodes for p in node.params if p.tensor is not None)
    return (t.data for t in (*graph.tensors, *params) if t.data is not None)


def _tensor_summary(tensor: TensorEntry) -> TensorSummary:
    encoding = None if tensor.encoding is None else _encoding_text(tensor.encoding)
    return TensorSummary(tensor.name, tensor.dtype.name, tensor.shape, encoding)


def _encoding_text(entry: EncodingEntry) -> str:
    def empty(array: ArrayEntry, dtypes: tuple[DType, ...], rank: int | None) -> Array:
        # the text names kind, axis and bits only, so that blobs stay untouched
        return np.empty(0, array.dtype.storage)

    return encoding_text(load_encoding(entry, empty))
