"""The exporter for DLC files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import dovetail
from dovetail.errors import UnsupportedOpError
from dovetail.files import atomic_write
from dovetail.ir import Graph, check
from dovetail.ops.exporter import ExportOptions
from dovetail_qnn.dlc._file import MODEL, OUTSIDE, WEIGHTS
from dovetail_qnn.dlc._graph_tables import GraphWriter
from dovetail_qnn.dlc._payload_writer import PayloadRegions, write_archive
from dovetail_qnn.dlc._streams import pack_stream
from dovetail_qnn.dlc._tables import GRAPHS, PARAMS, ModelTable, PayloadsTable
from dovetail_qnn.dlc.flatbuffers import encode

METADATA = "dlc.metadata"


class DlcExporter:
    """Writes DLC files of major 4, as the vendor's library does."""

    name: ClassVar[str] = "dlc"
    suffix: ClassVar[str] = ".dlc"

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a graph; see `dovetail.ops.exporter.Exporter`.

        The weights are always in the file.

        Raises:
            GraphError: The graph has faults; all are listed.
            UnsupportedOpError: A DLC cannot express some tensors or names; all are listed.
            ContainerError: The file cannot be written.
        """
        check(graph)
        regions = PayloadRegions()
        writer = GraphWriter(graph, regions)
        model, payloads = writer.tables()
        problems = writer.problems
        if problems:
            raise UnsupportedOpError(
                "the graph cannot be expressed in a DLC",
                where=f"graph '{graph.name}'",
                problems=problems,
            )
        try:
            streams = {
                METADATA: _metadata().encode(),
                MODEL: pack_stream(encode(ModelTable((model,)), GRAPHS)),
                WEIGHTS: pack_stream(encode(PayloadsTable((payloads,)), PARAMS)),
            }
        except UnicodeError as error:
            raise UnsupportedOpError(
                "a name or text contains half a surrogate pair, which a DLC cannot store",
                where=f"graph '{graph.name}'",
                hint="rename it",
            ) from error
        with atomic_write(path) as file:
            write_archive(file, (OUTSIDE, regions), streams)
        return tuple(_notes(graph))


def _metadata() -> str:
    return f"converter-command=dovetail export\nconverter-version={dovetail.__version__}\n"


def _notes(graph: Graph) -> Iterator[str]:
    moved = sum(1 for tensor in graph.tensors.values() if tensor.source != tensor.name)
    if moved:
        yield f"the names of {moved} tensors in the source model are not stored"
