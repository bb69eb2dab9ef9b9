"""The exporter for DLC files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

import dovetail
from dovetail.errors import UnsupportedOpError
from dovetail.files import atomic_write
from dovetail.ir import Graph, check
from dovetail.ops.exporter import ExportOptions
from dovetail_qnn._description import describe
from dovetail_qnn._export_options import QnnExportOptions, requested_graph
from dovetail_qnn._names import OwnNames
from dovetail_qnn.dlc._file import EXTRAS, MODEL, OUTSIDE, WEIGHTS
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
    options_type: ClassVar[type[ExportOptions]] = QnnExportOptions

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the one file."""
        return (path,)

    def export(self, graph: Graph, path: Path, options: QnnExportOptions) -> tuple[str, ...]:
        """Write a graph; see `dovetail.ops.exporter.Exporter`, and `export_graphs`."""
        return self.export_graphs((graph,), path, options)

    def export_graphs(
        self, graphs: Sequence[Graph], path: Path, options: QnnExportOptions
    ) -> tuple[str, ...]:
        """Write graphs; see `dovetail.ops.exporter.ModelExporter`.

        The weights are always in the file; those of several graphs are stored once.

        Raises:
            GraphError: A graph has faults; all are listed.
            UnsupportedOpError: A DLC cannot express some tensors or names; all are listed.
            ContainerError: The file cannot be written.
        """
        for graph in graphs:
            check(graph)
        regions = PayloadRegions()
        writers = [GraphWriter(requested_graph(graph, options), regions) for graph in graphs]
        where = ", ".join(f"graph '{graph.name}'" for graph in graphs)
        models, payloads = zip(*(writer.tables() for writer in writers), strict=True)
        if problems := [problem for writer in writers for problem in writer.problems]:
            raise UnsupportedOpError(
                "the model cannot be expressed in a DLC", where=where, problems=problems
            )
        try:
            streams = {
                METADATA: _metadata(options).encode(),
                MODEL: pack_stream(encode(ModelTable(models), GRAPHS)),
                WEIGHTS: pack_stream(encode(PayloadsTable(payloads), PARAMS)),
                **_extras(writers),
            }
        except UnicodeError as error:
            raise UnsupportedOpError(
                "a name or text contains half a surrogate pair, which a DLC cannot store",
                where=where,
                hint="rename it",
            ) from error
        with atomic_write(path) as file:
            write_archive(file, (OUTSIDE, regions), streams)
        return tuple(_notes(writers))


def _extras(writers: Iterable[GraphWriter]) -> Mapping[str, bytes]:
    """Return the member of what the tables do not say; empty if they say all."""
    found = {
        writer.graph.name: describe(
            writer.graph,
            OwnNames(writer.graph),
            writer.graph.name,
            has_layouts=False,
            has_omitted=True,
            own=writer.own,
            stated=writer.stated,
        )
        for writer in writers
    }
    said = {name: extras for name, extras in found.items() if extras is not None}
    return {EXTRAS: msgspec.json.encode(said, order="deterministic")} if said else {}


def _notes(writers: Iterable[GraphWriter]) -> Iterator[str]:
    """Yield the facts of the graphs that other readers of the file do not find."""
    own = (tensor for writer in writers for tensor in writer.own)
    kinds = {t.encoding.kind.name for t in own if t.encoding is not None}
    for kind in sorted(kinds):
        yield f"encodings of kind {kind} are in {EXTRAS}, which only Dovetail reads"


def _metadata(options: ExportOptions) -> str:
    """Return the text of the metadata, a line for each key."""
    facts = {
        "converter-command": "dovetail export",
        "converter-version": dovetail.__version__,
        "model-version": options.model_version,
        "model-copyright": "\\n".join(options.copyright.splitlines()),
    }
    return "".join(f"{key}={value}\n" for key, value in facts.items() if value)
