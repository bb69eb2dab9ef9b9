"""Options of the exporters, and the graph that they ask for."""

from __future__ import annotations

from typing import Literal

from dovetail.ir import Graph, Pass, copy_graph
from dovetail.ops.exporter import ExportOptions
from dovetail_opset.passes import SingleOps, VariantOps
from dovetail_qnn._names import FileNames

OpStyle = Literal["2.18", "2.27"]
_STYLES: dict[str, Pass] = {"2.18": SingleOps(), "2.27": VariantOps()}


class QnnExportOptions(ExportOptions, frozen=True, kw_only=True):
    """Options of an export to a file of QNN's converters.

    Attributes:
        op_style: Release of the SDK whose ops are written: single ops such as Relu (2.18), or
            ElementWiseNeuron and ElementWiseBinary (2.27); by default the ops of the graph.
        exclude_named_tensors: Whether tensors other than inputs and outputs are numbered, so that
            the names of the source model are not in the file.
        package_name: Op package of all nodes in the file; by default that of each node.
        c_names: Whether tensors and nodes have the file's names, identifiers of C, when the file is
            read again; their names in the source model are still known.
    """

    op_style: OpStyle | None = None
    exclude_named_tensors: bool = False
    package_name: str = ""
    c_names: bool = False


class QnnCppOptions(QnnExportOptions, frozen=True, kw_only=True):
    """Options of an export to C++.

    Attributes:
        overwrite_model_prefix: Whether the names of the functions begin with that of the file
            instead of `QnnModel`, so that several files can be linked together.
    """

    overwrite_model_prefix: bool = False


def requested_graph(graph: Graph, options: QnnExportOptions) -> Graph:
    """Return a graph as options ask for: the graph itself, or a changed copy."""
    names = options.exclude_named_tensors or options.c_names
    if not (options.op_style or names or options.package_name):
        return graph
    copy = copy_graph(graph)
    if options.op_style is not None:
        _STYLES[options.op_style].run(copy)
    for node in copy.nodes if options.package_name else ():
        node.package = options.package_name
    if options.exclude_named_tensors:
        _number_tensors(copy)
    if options.c_names:
        found = FileNames(copy)
        copy.rename(found.tensors, found.nodes)
    return copy


def _number_tensors(graph: Graph) -> None:
    """Name tensors by a counter, and drop what refers to the source model's tensors."""
    ends = {*graph.inputs, *graph.outputs}
    taken = {tensor.name for tensor in ends}
    free = (name for i in range(len(graph.tensors) + len(taken)) if (name := f"{i}") not in taken)
    inner = [tensor for tensor in graph.tensors.values() if tensor not in ends]
    graph.rename(dict(zip(inner, free, strict=False)), {})
    for tensor in inner:
        tensor.source = tensor.name
    sources = {tensor.source for tensor in ends}
    graph.removed_sources = frozenset()
    graph.source_encodings = {s: e for s, e in graph.source_encodings.items() if s in sources}
