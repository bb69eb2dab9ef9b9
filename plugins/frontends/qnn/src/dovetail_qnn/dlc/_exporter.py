"""The exporter for DLC files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        """Write a graph; see `dovetail.ops.exporter.Exporter`.

        The weights are always in the file.

        Raises:
            GraphError: The graph has faults; all are listed.
            UnsupportedOpError: A DLC cannot express some tensors or names; all are listed.
            ContainerError: The file cannot be written.
        """
        check(graph)
        graph = requested_graph(graph, options)
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
                METADATA: _metadata(options).encode(),
                MODEL: pack_stream(encode(ModelTable((model,)), GRAPHS)),
                WEIGHTS: pack_stream(encode(PayloadsTable((payloads,)), PARAMS)),
                **_extras(graph, writer),
            }
        except UnicodeError as error:
            raise UnsupportedOpError(
                "a name or text contains half a surrogate pair, which a DLC cannot store",
                where=f"graph '{graph.name}'",
                hint="rename it",
            ) from error
        with atomic_write(path) as file:
            write_archive(file, (OUTSIDE, regions), streams)
        return tuple(_notes(writer))


def _extras(graph: Graph, writer: GraphWriter) -> Mapping[str, bytes]:
    """Return the member of what the tables do not say; empty if they say all."""
    names = OwnNames(graph)
    found = describe(
        graph,
        names,
        graph.name,
        has_layouts=False,
        has_omitted=True,
        own=writer.own,
        stated=writer.stated,
    )
    return {} if found is None else {EXTRAS: msgspec.json.encode({graph.name: found})}


def _notes(writer: GraphWriter) -> Iterator[str]:
    """Yield the facts of the graph that other readers of the file do not find."""
    kinds = {t.encoding.kind.name for t in writer.own if t.encoding is not None}
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
