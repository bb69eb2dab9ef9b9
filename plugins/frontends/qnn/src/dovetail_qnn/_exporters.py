"""The exporters for the files of QNN's converters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import dovetail
from dovetail.errors import UnsupportedOpError
from dovetail.files import staged_folder
from dovetail.ir import Blob, Graph, Node, check
from dovetail.ops import checked_node
from dovetail.ops.exporter import ExportOptions
from dovetail.plugins.ops import installed_ops
from dovetail_qnn._description import describe
from dovetail_qnn._json_reader import SUFFIX
from dovetail_qnn._json_writer import Header, json_text
from dovetail_qnn._names import FileNames
from dovetail_qnn._quantization import is_described
from dovetail_qnn._tar import write_weights
from dovetail_qnn._weights import BIN

_NO_CPP, _NO_BIN = "N/A", "NA"


class QnnJsonExporter:
    """Writes `X_net.json` with the weights in `X.bin`."""

    name: ClassVar[str] = "qnn-json"
    suffix: ClassVar[str] = ".json"

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a graph; see `dovetail.ops.exporter.Exporter`.

        The weights are always in `X.bin` next to `X_net.json` or `X.json`.

        Raises:
            GraphError: The graph has faults; all are listed.
            UnsupportedOpError: Text contains half a surrogate pair, which the file cannot have.
            ContainerError: A file cannot be written.
        """
        check(graph)
        stem = path.stem.removesuffix(SUFFIX)
        names = FileNames(graph)
        extras = describe(graph, names, stem)
        blobs = _blobs(graph, names)
        header = Header(
            _NO_CPP,
            f"{stem}{BIN}" if blobs else _NO_BIN,
            f"dovetail version={dovetail.__version__} format={self.name}",
        )
        try:
            text = json_text(graph, names, extras, header, _work(graph))
        except UnicodeError as error:
            raise UnsupportedOpError(
                "a name or text contains half a surrogate pair, which JSON in UTF-8 cannot store",
                where=f"graph '{graph.name}'",
                hint="rename it",
            ) from error
        files = [Path(path.name)]
        with staged_folder(path.parent) as staging:
            (staging.new / path.name).write_bytes(text)
            if blobs:
                files.append(Path(header.bin))
                with (staging.new / header.bin).open("wb") as file:
                    write_weights(file, blobs)
            staging.commit(files)
        return tuple(_notes(graph))


def _blobs(graph: Graph, names: FileNames) -> Mapping[str, Blob]:
    static = (t for t in graph.tensors.values() if t.kind.is_static)
    return {names.tensors[t]: t.data for t in static if t.data is not None}


def _work(graph: Graph) -> Mapping[Node, int]:
    """Return the multiply-accumulates of the nodes whose ops are known and match."""
    ops = installed_ops()
    views = (checked_node(node, ops)[0] for node in graph.nodes)
    return {view.node: view.work for view in views if view is not None}


def _notes(graph: Graph) -> Iterator[str]:
    """Yield what other readers of the file cannot know."""
    kinds = {
        t.encoding.kind.name
        for t in graph.tensors.values()
        if t.encoding is not None and not is_described(t.encoding)
    }
    for kind in sorted(kinds):
        yield f"encodings of kind {kind} are under the key `dovetail`, which only Dovetail reads"
