"""The exporters for the files of QNN's converters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import dovetail
from dovetail.errors import UnsupportedOpError
from dovetail.files import staged_folder
from dovetail.ir import Blob, Graph, Node, check, copy_graph
from dovetail.ops import checked_node
from dovetail.ops.exporter import ExportOptions
from dovetail.plugins.ops import installed_ops
from dovetail_opset.passes import SingleOps
from dovetail_qnn._cpp_writer import FORM_2_18, FORM_2_27, CppWriter, Form
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
    form: ClassVar[Form | None] = None  # of a C++ file

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a graph; see `dovetail.ops.exporter.Exporter`.

        The weights are always in `X.bin`, next to the file.

        Raises:
            GraphError: The graph has faults; all are listed.
            UnsupportedOpError: The files cannot express encodings or text; all are listed.
            ContainerError: A file cannot be written.
        """
        check(graph)
        stem = path.stem.removesuffix(SUFFIX)
        names = FileNames(graph)
        blobs = _blobs(graph, names)
        command = f"dovetail version={dovetail.__version__} format={self.name}"
        try:
            texts = self._texts(graph, names, path, f"{stem}{BIN}" if blobs else _NO_BIN, command)
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
        self, graph: Graph, names: FileNames, path: Path, weights: str, command: str
    ) -> Mapping[str, bytes]:
        """Return the content of the files besides the weights, by name."""
        stem = path.stem.removesuffix(SUFFIX)
        extras = describe(graph, names, stem, has_layouts=True)
        cpp = f"{stem}{QnnCppExporter.suffix}" if self.form else _NO_CPP
        text = json_text(graph, names, extras, Header(cpp, weights, command), _work(graph))
        return {f"{stem}{SUFFIX}.json" if self.form else path.name: text}


class QnnCppExporter(QnnJsonExporter):
    """Writes `X.cpp` in the form of QNN 2.27 and later, with `X.bin` and `X_net.json`."""

    name: ClassVar[str] = "qnn-cpp"
    suffix: ClassVar[str] = ".cpp"
    form: ClassVar[Form | None] = FORM_2_27

    def _texts(
        self, graph: Graph, names: FileNames, path: Path, weights: str, command: str
    ) -> Mapping[str, bytes]:
        stem = path.stem
        writer = CppWriter(graph, names, stem, self.form or FORM_2_27)
        extras = describe(graph, names, stem, has_layouts=False, order=writer.order)
        text = writer.text(extras, command).encode()
        if writer.problems:
            raise UnsupportedOpError(
                "the graph cannot be expressed in C++",
                where=f"graph '{graph.name}'",
                problems=writer.problems,
            )
        return {path.name: text, **super()._texts(graph, names, path, weights, command)}


class QnnCpp218Exporter(QnnCppExporter):
    """Writes `X.cpp` in the form of QNN 2.18, whose elementwise ops have names of their own."""

    name: ClassVar[str] = "qnn-cpp-2.18"
    form: ClassVar[Form | None] = FORM_2_18

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a graph; see `QnnJsonExporter.export`."""
        graph = copy_graph(graph)
        SingleOps().run(graph)
        return super().export(graph, path, options)


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
