"""The exporters for the files of QNN's converters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import dovetail
from dovetail.errors import UnsupportedOpError
from dovetail.files import identifier, staged_folder
from dovetail.ir import Blob, Graph, Node, check
from dovetail.ops import checked_node
from dovetail.ops.exporter import ExportOptions
from dovetail.plugins.ops import installed_ops
from dovetail_qnn._cpp_writer import FORM_2_18, FORM_2_27, PREFIX, CppWriter
from dovetail_qnn._description import describe
from dovetail_qnn._export_options import QnnCppOptions, QnnExportOptions, requested_graph
from dovetail_qnn._header import Header
from dovetail_qnn._json_reader import SUFFIX
from dovetail_qnn._json_writer import json_text
from dovetail_qnn._names import FileNames
from dovetail_qnn._quantization import is_described
from dovetail_qnn._tar import write_weights
from dovetail_qnn._weights import BIN

_NO_CPP, _NO_BIN = "N/A", "NA"


class QnnJsonExporter:
    """Writes `X_net.json` with the weights in `X.bin`."""

    name: ClassVar[str] = "qnn-json"
    suffix: ClassVar[str] = ".json"
    options_type: ClassVar[type[ExportOptions]] = QnnExportOptions

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the model's file and that of its weights."""
        return path, path.with_name(f"{path.stem.removesuffix(SUFFIX)}{BIN}")

    def export(self, graph: Graph, path: Path, options: QnnExportOptions) -> tuple[str, ...]:
        """Write a graph; see `dovetail.ops.exporter.Exporter`.

        The weights are always in `X.bin`, next to the file.

        Raises:
            GraphError: The graph has faults; all are listed.
            UnsupportedOpError: The files cannot express encodings or text; all are listed.
            ContainerError: A file cannot be written.
        """
        check(graph)
        graph = requested_graph(graph, options)
        stem = path.stem.removesuffix(SUFFIX)
        names = FileNames(graph)
        blobs = _blobs(graph, names)
        command = f"dovetail version={dovetail.__version__} format={self.name}"
        header = Header(
            _NO_CPP,
            f"{stem}{BIN}" if blobs else _NO_BIN,
            command,
            options.model_version,
            options.copyright,
        )
        try:
            texts = self._texts(graph, names, path, header, options)
        except UnicodeError as error:
            raise UnsupportedOpError(
                "a name or text contains half a surrogate pair, which UTF-8 cannot store",
                where=f"graph '{graph.name}'",
                hint="rename it",
            ) from error
        with staged_folder(path.parent) as staging:
            for name, text in texts.items():
                (staging.new / name).write_bytes(text)
            files = list(texts)
            if blobs:
                files.append(f"{stem}{BIN}")
                with (staging.new / files[-1]).open("wb") as file:
                    write_weights(file, blobs)
            staging.commit(map(Path, files))
        return tuple(_notes(graph))

    def _texts(
        self, graph: Graph, names: FileNames, path: Path, header: Header, options: QnnExportOptions
    ) -> Mapping[str, bytes]:
        """Return the content of the files besides the weights, by name."""
        stem = path.stem.removesuffix(SUFFIX)
        extras = describe(graph, names, stem, has_layouts=True)
        return {path.name: json_text(graph, names, extras, header, _work(graph))}


class QnnCppExporter(QnnJsonExporter):
    """Writes `X.cpp` with `X.bin` and `X_net.json`."""

    name: ClassVar[str] = "qnn-cpp"
    suffix: ClassVar[str] = ".cpp"
    options_type: ClassVar[type[ExportOptions]] = QnnCppOptions

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the source, the file of its weights, and the JSON."""
        return *super().files(path), _json_path(path)

    def _texts(
        self, graph: Graph, names: FileNames, path: Path, header: Header, options: QnnExportOptions
    ) -> Mapping[str, bytes]:
        stem = path.stem
        prefixed = isinstance(options, QnnCppOptions) and options.overwrite_model_prefix
        form = FORM_2_18 if options.op_style == "2.18" else FORM_2_27
        writer = CppWriter(graph, names, stem, form, identifier(stem) if prefixed else PREFIX)
        extras = describe(graph, names, stem, has_layouts=False, order=writer.order)
        header = replace(header, cpp=path.name)
        text = writer.text(extras, header).encode()
        if writer.problems:
            raise UnsupportedOpError(
                "the graph cannot be expressed in C++",
                where=f"graph '{graph.name}'",
                problems=writer.problems,
            )
        json = super()._texts(graph, names, _json_path(path), header, options)
        return {path.name: text, **json}


def _json_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}{SUFFIX}{QnnJsonExporter.suffix}")


def _blobs(graph: Graph, names: FileNames) -> Mapping[str, Blob]:
    static = (t for t in graph.tensors.values() if t.kind.is_static)
    return {names.tensors[t]: t.data for t in static if t.data is not None}


def _work(graph: Graph) -> Mapping[Node, int]:
    """Return the multiply-accumulates of the nodes whose ops are known and match."""
    ops = installed_ops()
    views = (checked_node(node, ops)[0] for node in graph.nodes)
    return {view.node: view.work for view in views if view is not None}


def _notes(graph: Graph) -> Iterator[str]:
    """Yield the facts of the graph that other readers of the files do not find."""
    kinds = {
        t.encoding.kind.name
        for t in graph.tensors.values()
        if t.encoding is not None and not is_described(t.encoding)
    }
    for kind in sorted(kinds):
        yield f"encodings of kind {kind} are under the key `dovetail`, which only Dovetail reads"
