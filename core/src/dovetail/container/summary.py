"""Summary of a container without its blobs, for `dovetail inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from dovetail.container._encodings import load_encoding
from dovetail.container._manifest import (
    ArrayEntry,
    EncodingEntry,
    GraphEntry,
    ManifestError,
    ModelManifest,
    TensorEntry,
)
from dovetail.container._reader import Container, check_padding
from dovetail.container.producer import Producer
from dovetail.ir import Array, DataFormat, DType, Graph, MemoryType, Tensor
from dovetail.ir.sharing import static_tensors
from dovetail.ir.text import encoding_text


class TensorSummary(msgspec.Struct, frozen=True):
    """An input or output of a graph.

    Attributes:
        name: Its name.
        dtype: Name of its type.
        shape: Maximum sizes of its axes.
        encoding: Short description of its encoding; None if it has none.
        dynamic: Whether the size of each axis may be less; empty if no axis is dynamic.
        memory_type: Name of its memory type.
        data_format: Name of its data format.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    encoding: str | None
    dynamic: tuple[bool, ...] = ()
    memory_type: str = MemoryType.RAW.name
    data_format: str = DataFormat.DENSE.name

    @classmethod
    def of(cls, tensor: Tensor) -> TensorSummary:
        """Return the summary of a tensor."""
        encoding = None if tensor.encoding is None else encoding_text(tensor.encoding)
        return cls.with_encoding(tensor, encoding)

    @classmethod
    def with_encoding(cls, tensor: Tensor | TensorEntry, encoding: str | None) -> TensorSummary:
        """Return the summary of a tensor with this description of its encoding."""
        return cls(
            tensor.name,
            tensor.dtype.name,
            tensor.shape,
            encoding,
            tensor.dynamic,
            tensor.memory_type.name,
            tensor.data_format.name,
        )


class GraphSummary(msgspec.Struct, frozen=True):
    """One graph.

    Attributes:
        name: Its name.
        inputs: Tensors that the application writes, in order.
        outputs: Tensors that the application reads, in order.
        ops: Number of nodes of each op, by `package::op`, sorted by name.
        nodes: Number of nodes.
        tensors: Number of tensors without params.
        static_bytes: Bytes of its static tensors and tensor params; shared blobs count each time.
    """

    name: str
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    ops: dict[str, int]
    nodes: int
    tensors: int
    static_bytes: int

    @classmethod
    def of(cls, graph: Graph) -> GraphSummary:
        """Return the summary of a graph."""
        ops = Counter(f"{node.package}::{node.op_type}" for node in graph.nodes)
        data = (tensor.data for tensor in static_tensors(graph))
        return cls(
            graph.name,
            tuple(map(TensorSummary.of, graph.inputs)),
            tuple(map(TensorSummary.of, graph.outputs)),
            dict(sorted(ops.items())),
            len(graph.nodes),
            len(graph.tensors),
            sum(blob.nbytes for blob in data if blob is not None),
        )


class Summary(msgspec.Struct, frozen=True):
    """A container file.

    Attributes:
        kind: Its content: `model`, `context` or `section`.
        format_version: Version of the container format.
        format_minor: The first minor version that has all that the file uses.
        requires: What a reader must know of newer minor versions.
        producer: The program that created it.
        op_packages: Versions of the op packages by name.
        graphs: Its graphs, in order.
        blobs: Number of blobs.
        blob_bytes: Bytes of all blobs.
        shared_blob_bytes: Bytes of the blobs used by several tensors, each counted once.
        file_bytes: Size of the file.
    """

    kind: str
    format_version: int
    format_minor: int
    requires: tuple[str, ...]
    producer: Producer
    op_packages: dict[str, str]
    graphs: tuple[GraphSummary, ...]
    blobs: int
    blob_bytes: int
    shared_blob_bytes: int
    file_bytes: int


def summarize_model(container: Container[ModelManifest]) -> Summary:
    """Return the summary of a model file; only its manifest and padding are read.

    Raises:
        ContainerError: These parts are damaged.
    """
    check_padding(container)
    manifest = container.manifest
    uses = Counter(i for graph in manifest.graphs for i in _data_of(graph))
    _check_indices(uses, container)
    return Summary(
        container.header.kind.name.lower(),
        container.header.version,
        manifest.minor,
        manifest.requires,
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
            f"blob {max(uses)} not found; the file has {count}",
            where=f"{container.where}: $.graphs",
        )


def _graph_summary(graph: GraphEntry, container: Container[ModelManifest]) -> GraphSummary:
    ops = Counter(f"{node.package}::{node.op_type}" for node in graph.nodes)
    written = {i for node in graph.nodes for i in node.outputs}
    inputs, outputs = [], []
    for i, tensor in enumerate(graph.tensors):
        kind = tensor.kind  # see `Graph.is_input`
        if kind.is_input and not (kind.is_output and i in written):
            inputs.append(_tensor_summary(tensor))
        elif kind.is_output:
            outputs.append(_tensor_summary(tensor))
    return GraphSummary(
        graph.name,
        tuple(inputs),
        tuple(outputs),
        dict(sorted(ops.items())),
        len(graph.nodes),
        len(graph.tensors),
        sum(container.manifest.blobs[i].size for i in _data_of(graph)),
    )


def _data_of(graph: GraphEntry) -> Iterator[int]:
    """Yield the blob of every tensor and tensor param that has one."""
    params = (p.tensor for node in graph.nodes for p in node.params if p.tensor is not None)
    return (t.data for t in (*graph.tensors, *params) if t.data is not None)


def _tensor_summary(tensor: TensorEntry) -> TensorSummary:
    encoding = None if tensor.encoding is None else _encoding_text(tensor.encoding)
    return TensorSummary.with_encoding(tensor, encoding)


def _encoding_text(entry: EncodingEntry) -> str:
    def empty(array: ArrayEntry, dtypes: tuple[DType, ...], rank: int | None) -> Array:
        # the text says kind, axis and bits only, so no blob is read
        return np.empty(0, array.dtype.storage)

    return encoding_text(load_encoding(entry, empty))
