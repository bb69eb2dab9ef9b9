"""Payloads of tensors: where their bytes are, inline, in another member, or in NR64's buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.container import MappedBlob, aligned_copy
from dovetail.errors import FrontendError
from dovetail.ir import Blob, DType
from dovetail.ir.storage import DeferredBlob
from dovetail_qnn.dlc._archive import Bytes, Member
from dovetail_qnn.dlc._streams import Stream
from dovetail_qnn.dlc._tables import (
    WIDE_PARAMS,
    GraphPayloadsTable,
    PayloadsTable,
    PayloadTable,
    WidePayloadsTable,
)
from dovetail_qnn.dlc.flatbuffers import FaultList, decode


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payloads of one graph.

    Attributes:
        tensors: Those of its tensors, by name.
        nodes: Those of the attributes of each node, by the name of their tensor.
    """

    tensors: Mapping[str, PayloadTable]
    nodes: tuple[Mapping[str, PayloadTable], ...]

    def of_node(self, index: int) -> Mapping[str, PayloadTable]:
        """Return the payloads of a node; none if the stream lacks the node."""
        return self.nodes[index] if index < len(self.nodes) else {}


NO_PAYLOADS = Payloads({}, ())


def read_payloads(stream: Stream, where: str, faults: FaultList) -> dict[str, Payloads]:
    """Return the payloads of each graph by its name, from a stream of major 4."""
    if stream.identifier == WIDE_PARAMS:
        wide = decode(stream.data, WidePayloadsTable, where, faults)
        if wide.params is None:
            faults.add("the stream has no names of payloads", where)
            return {}
        root = decode(wide.params, PayloadsTable, f"{where}: params", faults)
        root = _with_buffers(root, wide, where, faults)
    else:
        root = decode(stream.data, PayloadsTable, where, faults)
    return {
        graph.name or "": Payloads(
            {each.name or "": each for each in graph.tensors},
            tuple({each.name or "": each for each in node.tensors} for node in graph.nodes),
        )
        for graph in root.graphs
    }


def _with_buffers(
    root: PayloadsTable, wide: WidePayloadsTable, where: str, faults: FaultList
) -> PayloadsTable:
    """Return named payloads with the bytes of the buffers, one after the other.

    The buffers have the order of the records: a graph's tensors, then its nodes' attributes.
    """
    count = sum(1 for graph in root.graphs for _ in _records(graph))
    if count != len(wide.buffers):
        faults.add(f"{len(wide.buffers)} buffers for {count} payloads", where)
        return PayloadsTable()
    rest = iter(wide.buffers)

    def filled(given: tuple[PayloadTable, ...]) -> tuple[PayloadTable, ...]:
        return tuple(PayloadTable(each.name, next(rest).bytes) for each in given)

    graphs = []
    for graph in root.graphs:
        tensors = filled(graph.tensors)
        nodes = tuple(type(node)(filled(node.tensors)) for node in graph.nodes)
        graphs.append(GraphPayloadsTable(graph.name, tensors, nodes))
    return PayloadsTable(tuple(graphs))


def _records(graph: GraphPayloadsTable) -> Iterator[PayloadTable]:
    yield from graph.tensors
    for node in graph.nodes:
        yield from node.tensors


@dataclass(frozen=True, slots=True)
class BlobSource:
    """The members that hold payloads, and how their bytes become blobs.

    Attributes:
        inline: The member of the stream of payloads.
        outside: The member that locations refer to; None if the file has none.
    """

    inline: Member
    outside: Member | None
    _made: dict[tuple[str, int, int, int], Blob] = field(default_factory=dict)

    def blob(self, payload: PayloadTable, dtype: DType) -> Blob:
        """Return a payload's bytes: mapped if they are stored and aligned.

        Raises:
            FrontendError: The payload is outside its member, or has no bytes.
        """
        if payload.bytes is not None:
            view = np.frombuffer(payload.bytes, np.uint8)
            start = view.ctypes.data - self.inline.data.ctypes.data if view.size else 0
            return self._blob(self.inline, start, view.size, dtype)
        if payload.location is None:
            raise FrontendError("the payload has neither bytes nor a location")
        if self.outside is None:
            raise FrontendError("the payload is in the member 'model.params.bin', which is missing")
        start, size = payload.location.offset, payload.location.size
        if start + size > self.outside.info.file_size:
            raise FrontendError(
                f"{size} bytes at {start} exceed the {self.outside.info.file_size} bytes of the "
                f"member '{self.outside.name}'"
            )
        return self._blob(self.outside, start, size, dtype)

    def _blob(self, member: Member, start: int, size: int, dtype: DType) -> Blob:
        """Return the blob of a region, the same for all tensors that share it."""
        key = member.name, start, size, dtype.storage.itemsize
        if key not in self._made:
            self._made[key] = _blob(member, start, size, dtype)
        return self._made[key]


def _blob(member: Member, start: int, size: int, dtype: DType) -> Blob:
    if not member.is_stored:
        member.check()
        view = member.data[start : start + size]
        is_aligned = view.ctypes.data % dtype.storage.itemsize == 0
        return Blob(view if is_aligned else aligned_copy(view))
    at = member.start + start
    mapped = MappedBlob(member.file, at, size, check=member.check)
    if at % dtype.storage.itemsize == 0:
        return mapped

    def copied() -> Bytes:
        return aligned_copy(mapped.bytes)

    return DeferredBlob(size, copied, mapped)
