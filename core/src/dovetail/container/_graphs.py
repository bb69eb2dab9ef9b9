"""Lossless conversion of graphs to and from manifest entries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.container._encodings import (
    ArrayReader,
    BlobSink,
    dump_encoding,
    find_blob,
    load_encoding,
)
from dovetail.container._manifest import (
    MAX_RANK,
    GraphEntry,
    GridEntry,
    ManifestError,
    NodeEntry,
    ParamEntry,
    ScalarEntry,
    TensorEntry,
)
from dovetail.errors import GraphError
from dovetail.ir import Blob, DataFormat, DType, Graph, Node, Param, Scalar, Spec, Tensor, check

# NumPy counts an array's bytes in 63 bits, whatever its type and even if another size is 0.
_MAX_ELEMENTS = 2**60
_NOT_FINITE = {"nan", "inf", "-inf"}


def dump_graph(graph: Graph, table: BlobSink, *, is_part: bool = False) -> GraphEntry:
    """Return the entry of a graph and add its data to `table`.

    Args:
        graph: The graph.
        table: Receives the data.
        is_part: As for `find_faults`.

    Raises:
        GraphError: The graph is not well formed, or exceeds a limit of the format.
    """
    check(graph, is_part=is_part)
    indices = {tensor: i for i, tensor in enumerate(graph.tensors.values())}
    where = f"graph '{graph.name}'"
    tensors = tuple(dump_tensor(t, table, where) for t in indices)
    nodes = tuple(
        NodeEntry(
            node.name,
            node.package,
            node.op_type,
            tuple(None if t is None else indices[t] for t in node.inputs),
            tuple(indices[t] for t in node.outputs),
            tuple(dump_param(n, p, table, node.where) for n, p in node.params.items()),
            None if node.sources == (node.name,) else node.sources,
        )
        for node in graph.nodes
    )
    grids = tuple(_dump_grids(graph, table, where))
    return GraphEntry(graph.name, tensors, nodes, grids, tuple(sorted(graph.removed_sources)))


def load_graph(
    entry: GraphEntry, blobs: Sequence[Blob], where: str, *, is_part: bool = False
) -> Graph:
    """Return the graph of an entry.

    Args:
        entry: From a manifest.
        blobs: The container's blobs; only those of text and of encodings are read.
        where: File and path in the manifest, for errors.
        is_part: As for `find_faults`.

    Raises:
        ContainerError: The entry refers to something missing, or the graph is not well formed.
    """
    graph = Graph(entry.name)
    graph.removed_sources = frozenset(entry.gone)
    try:
        tensors = [
            graph.add_tensor(load_tensor(t, blobs, f"{where}.tensors[{i}]"))
            for i, t in enumerate(entry.tensors)
        ]
        for i, node in enumerate(entry.nodes):
            graph.add_node(_load_node(node, tensors, blobs, f"{where}.nodes[{i}]"))
        for i, grid in enumerate(entry.grids):
            _load_grid(grid, graph, blobs, f"{where}.grids[{i}]")
        check(graph, is_part=is_part)
    except GraphError as error:
        raise ManifestError(
            error.message, where=f"{where}: {error.where}", problems=error.problems
        ) from error
    return graph


def _dump_grids(graph: Graph, table: BlobSink, where: str) -> Iterator[GridEntry]:
    """Yield the entries of the source encodings whose tensors are in the graph."""
    sources = {tensor.source for tensor in graph.tensors.values()}
    for source, spec in graph.source_encodings.items():
        if source not in sources:
            continue
        entry = None
        if spec.encoding is not None:
            entry = dump_encoding(spec.encoding, table, f"{where}: grid of '{source}'")
        yield GridEntry(source, spec.dtype, spec.shape, entry)


def _load_grid(entry: GridEntry, graph: Graph, blobs: Sequence[Blob], where: str) -> None:
    if entry.source in graph.source_encodings:
        raise ManifestError(f"duplicate grid of '{entry.source}'", where=where)
    if math.prod(size for size in entry.shape if size) > _MAX_ELEMENTS:
        raise ManifestError(f"impossible shape {entry.shape}", where=where)
    encoding = None
    if entry.encoding is not None:
        encoding = load_encoding(entry.encoding, ArrayReader(blobs, where))
    graph.source_encodings[entry.source] = Spec(entry.dtype, entry.shape, encoding)


def dump_tensor(tensor: Tensor, table: BlobSink, where: str) -> TensorEntry:
    """Return the entry of a tensor and add its data to `table`.

    Raises:
        GraphError: It exceeds a limit of the format.
    """
    where = f"{where}: tensor '{tensor.name}'"
    if limit := _limit_of(tensor):
        raise GraphError(limit, where=where)
    encoding, perm = tensor.encoding, tensor.source_perm
    return TensorEntry(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        tensor.kind,
        None if encoding is None else dump_encoding(encoding, table, where),
        None if tensor.data is None else table.add(tensor.data),
        None if tensor.source == tensor.name else tensor.source,
        None if perm is None else tuple(int(p) for p in perm),
        tensor.dynamic,
        tensor.memory_type,
        tensor.data_format,
    )


def load_tensor(entry: TensorEntry, blobs: Sequence[Blob], where: str) -> Tensor:
    """Return the tensor of an entry.

    Raises:
        ContainerError: It refers to a missing blob, or exceeds a limit of the format.
    """
    encoding = entry.encoding
    tensor = Tensor(
        entry.name,
        entry.dtype,
        entry.shape,
        entry.kind,
        encoding=None if encoding is None else load_encoding(encoding, ArrayReader(blobs, where)),
        data=None if entry.data is None else find_blob(blobs, entry.data, where),
        source=entry.source,
        source_perm=entry.source_perm,
        dynamic=entry.dynamic,
        memory_type=entry.memory_type,
        data_format=entry.data_format,
    )
    if limit := _limit_of(tensor):
        raise ManifestError(limit, where=where)
    return tensor


def _limit_of(tensor: Tensor) -> str | None:
    """Return how a tensor exceeds a limit of the format; `find_faults` reports other faults."""
    rank = len(tensor.shape)
    if rank > MAX_RANK:
        return f"rank {rank} exceeds the maximum of {MAX_RANK}"
    if math.prod(size for size in tensor.shape if size) > _MAX_ELEMENTS:
        return f"impossible shape {tensor.shape}"
    perm = tensor.source_perm
    if perm is not None and sorted(perm) != list(range(rank)):
        return f"`source_perm` {perm} is not a permutation of {rank} axes"
    is_dense = tensor.data_format is DataFormat.DENSE
    if tensor.dtype is DType.STRING and is_dense and tensor.data is not None:
        return _text_limit(tensor.data.bytes.tobytes(), math.prod(tensor.shape))
    return None


def _text_limit(stored: bytes, count: int) -> str | None:
    if stored.count(b"\0") != count or (stored and not stored.endswith(b"\0")):
        return f"the data are not {count} texts, each ended by a zero byte"
    try:
        stored.decode()
    except UnicodeDecodeError as error:
        return f"the text is not UTF-8: {error}"
    return None


def _load_node(
    entry: NodeEntry, tensors: Sequence[Tensor], blobs: Sequence[Blob], where: str
) -> Node:
    for index in (*entry.inputs, *entry.outputs):
        if index is not None and index >= len(tensors):
            raise ManifestError(f"tensor {index} not found", where=where)
    params: dict[str, Param] = {}
    for i, param in enumerate(entry.params):
        if param.name in params:
            raise ManifestError(f"duplicate param '{param.name}'", where=where)
        params[param.name] = load_param(param, blobs, f"{where}.params[{i}]")
    return Node(
        entry.name,
        entry.package,
        entry.op_type,
        [None if i is None else tensors[i] for i in entry.inputs],
        [tensors[i] for i in entry.outputs],
        params,
        sources=entry.sources,
    )


def dump_param(name: str, param: Param, table: BlobSink, where: str) -> ParamEntry:
    """Return the entry of a param and add its data to `table`.

    Raises:
        GraphError: A scalar does not fit its type, or a tensor exceeds a limit of the format.
    """
    if isinstance(param, Tensor):
        return ParamEntry(name, tensor=dump_tensor(param, table, f"{where}: param '{name}'"))
    value = param.value.item() if isinstance(param.value, np.generic) else param.value
    if not param.fits:
        raise GraphError(f"param '{name}' {_scalar_fault(param)}", where=where)
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    return ParamEntry(name, scalar=ScalarEntry(param.dtype, value))


def load_param(entry: ParamEntry, blobs: Sequence[Blob], where: str) -> Param:
    """Return the param of an entry.

    Raises:
        ContainerError: It is not exactly one of scalar and tensor, or is damaged.
    """
    if (entry.scalar is None) == (entry.tensor is None):
        raise ManifestError("a param must be either a scalar or a tensor", where=where)
    if entry.tensor is not None:
        return load_tensor(entry.tensor, blobs, f"{where}.tensor")
    if entry.scalar is None:
        raise AssertionError  # ruled out above
    dtype, value = entry.scalar.dtype, entry.scalar.value
    if dtype.is_float and isinstance(value, str) and value in _NOT_FINITE:
        value = float(value)
    scalar = Scalar(dtype, value)
    if not scalar.fits:
        raise ManifestError(_scalar_fault(scalar), where=f"{where}.scalar")
    return scalar


def _scalar_fault(scalar: Scalar) -> str:
    return f"is {scalar.value!r}, which {scalar.dtype.name} does not hold"
