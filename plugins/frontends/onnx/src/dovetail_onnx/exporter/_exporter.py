"""The exporters `onnx-qdq` and `onnx`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from dovetail.errors import OpError, PluginError, Problem, QuantizationError, UnsupportedOpError
from dovetail.ir import Graph, Node, Tensor, copy_graph
from dovetail.ops import OpRegistry, bind_node
from dovetail.ops.exporter import ExportOptions
from dovetail.plugins.ops import installed_ops
from dovetail_onnx.exporter import _file
from dovetail_onnx.exporter._model import ModelBuilder
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._options import OnnxExportOptions
from dovetail_onnx.exporter._table import exporters_hint, op_exporters
from dovetail_onnx.exporter._types import type_problems
from dovetail_onnx.exporter._values import Values
from dovetail_onnx.exporter.operators import EXPORTERS
from dovetail_opset.passes import SingleOps

# The ops of the standard set that can be exported, with one that only single ops replace.
EXPORTED = EXPORTERS.op_types | {"ElementWiseBinary"}

# Operators that result from a tensor's type, shape or order of axes, not from an op.
_OF_TENSORS = ("Cast", "DequantizeLinear", "QuantizeLinear", "Reshape", "Transpose")
_HINT = "docs/export.md lists the ops that can be exported"


class OnnxQdqExporter:
    """Writes graphs as ONNX with a QuantizeLinear and DequantizeLinear at each quantized tensor.

    Inputs and outputs of the model are real values. A graph without quantized tensors becomes plain
    float ONNX.
    """

    name: ClassVar[str] = "onnx-qdq"
    suffix: ClassVar[str] = ".onnx"
    options_type: ClassVar[type[ExportOptions]] = OnnxExportOptions

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the model's file and that of its weights."""
        return path, _file.data_path(path)

    def export(self, graph: Graph, path: Path, options: OnnxExportOptions) -> tuple[str, ...]:
        """Write a model that computes the same as a graph; see `dovetail.ops.exporter.Exporter`.

        Raises:
            UnsupportedOpError: Nodes or tensors that ONNX cannot express, all of them.
            ContainerError: The file cannot be written.
        """
        if unencodable := _unencodable_names(graph):
            raise UnsupportedOpError(
                "names contain half a surrogate pair, which ONNX cannot store",
                hint="rename them",
                problems=unencodable,
            )
        graph = copy_graph(graph)
        SingleOps().run(graph)  # an exporter for each function, not for each number of a param
        names = [t.name for t in (*graph.inputs, *graph.outputs)]
        builder = ModelBuilder(graph.name, names)
        values = Values(graph, builder)
        for tensor in graph.inputs:
            values.add_input(tensor)
        ops = installed_ops()
        problems = [p for node in graph.nodes for p in _export_node(node, values, ops)]
        outputs = values.finish()
        values.notes += _spelled_out(graph, builder)
        problems += [*values.problems, *type_problems(builder)]
        if problems:
            raise UnsupportedOpError(
                "the graph cannot be expressed in ONNX",
                where=f"graph '{graph.name}'",
                hint=_HINT,
                problems=problems,
            )
        _file.write(builder, outputs, path, options)
        return tuple(values.notes)


class OnnxExporter(OnnxQdqExporter):
    """Writes float graphs as ONNX; quantized ones are errors."""

    name: ClassVar[str] = "onnx"

    def export(self, graph: Graph, path: Path, options: OnnxExportOptions) -> tuple[str, ...]:
        """Write a model that computes the same as a graph; see `dovetail.ops.exporter.Exporter`.

        Raises:
            UnsupportedOpError: Quantized tensors, or nodes that ONNX lacks; all are listed.
            ContainerError: The file cannot be written.
        """
        quantized = [t for t in graph.tensors.values() if t.dtype.is_fixed_point]
        if quantized:
            raise UnsupportedOpError(
                "the graph is quantized, and this format is for float graphs",
                where=f"graph '{graph.name}'",
                hint="export it as onnx-qdq, or export the model as it was before quantization",
                problems=[_quantized_problem(tensor) for tensor in quantized],
            )
        return super().export(graph, path, options)


def _unencodable_names(graph: Graph) -> list[Problem]:
    """Return a problem for each name in the graph that UTF-8 cannot express."""
    named = [("graph", graph.name)]
    named += [("tensor", name) for name in graph.tensors]
    named += [("node", node.name) for node in graph.nodes]
    return [
        Problem("half a surrogate pair", where=f"{kind} {name!a}")
        for kind, name in named
        if any("\ud800" <= char <= "\udfff" for char in name)
    ]


def _spelled_out(graph: Graph, builder: ModelBuilder) -> list[str]:
    """Return the ops that have become several operators, and the operators of each."""
    made: dict[str, list[str]] = defaultdict(list)
    for node in builder.nodes:
        if node.op_type not in _OF_TENSORS:
            made[node.where].append(node.op_type)
    counts = Counter((node.op_type, tuple(made[node.where])) for node in graph.nodes)
    return [
        f"{op_type} is written as {', '.join(operators)} ({count} of the nodes)"
        for (op_type, operators), count in counts.items()
        if len(operators) > 1
    ]


def _quantized_problem(tensor: Tensor) -> Problem:
    return Problem(f"type {tensor.dtype.name}", where=f"tensor '{tensor.source}'")


def _export_node(node: Node, values: Values, ops: OpRegistry) -> Iterator[Problem]:
    """Export one node; return the reason if that is impossible."""
    try:
        table = op_exporters(node.package)
        write = None if table is None else table.find(node.op_type)
        if write is None:
            text = f"unsupported op {node.package}::{node.op_type}"
            hint = "" if table is EXPORTERS else exporters_hint(node.package)
            raise UnsupportedOpError(text, where=node.where, hint=hint)
        op = bind_node(ops.find(node.package, node.op_type), node)
        write(NodeExport(node, op, values))
    except (UnsupportedOpError, OpError, QuantizationError, PluginError) as error:
        yield error.as_problem(error.where or node.where)
        for tensor in node.outputs:
            if values.order(tensor) is None:
                values.forget(tensor)
