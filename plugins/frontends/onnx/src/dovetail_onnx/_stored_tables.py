"""Rows of stored tables, used as real numbers: gathered from a real table instead.

This is the form of embeddings that onnxruntime quantized. A table that is dequantized as a whole
keeps its grid; if only the rows are, it is a table of plain integers, which processors lack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs
from onnx import NodeProto, TensorProto, helper

from dovetail_onnx._attributes import Attributes
from dovetail_onnx._matching import SourceView
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

_REAL = (TensorProto.FLOAT, TensorProto.FLOAT16)
_DEQUANTIZE = frozenset(("DequantizeLinear", "com.microsoft:DequantizeLinear"))
# Operators of which each stored input is followed by its scale and zero point.
_ON_STORED = _DEQUANTIZE | {
    "QLinearConv",
    "QLinearMatMul",
    *(f"com.microsoft:{name}" for name in ("QLinearAdd", "QLinearMul", "QLinearConcat", "QGemm")),
}


def dequantize_tables(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with a DequantizeLinear of every such table, before the Gather."""
    if not any(node.full_type in _ON_STORED for node in source.nodes):
        return source
    view = SourceView(source, reader)
    made: dict[str, list[SourceNode]] = {}
    for node in source.nodes:
        if node.full_type == "Gather" and (grid := _grid_of_rows(view, node)) is not None:
            made |= _from_real_table(view, node, grid)
    nodes = [new for node in source.nodes for new in made.get(node.name, [node])]
    return replace(source, nodes=tuple(nodes))


def _grid_of_rows(view: SourceView, gather: SourceNode) -> tuple[str, str] | None:
    """Return the names of the single scale and zero point by which all readers understand rows."""
    (rows,), table = gather.outputs, gather.inputs[0]
    if table not in view.source.initializers or rows in view.source.outputs:
        return None
    grids = set()
    for reader in view.readers(rows):
        if reader.full_type not in _ON_STORED or "output_dtype" in Attributes(reader.proto):
            return None
        inputs = (*reader.inputs, "", "")
        at = [i for i, name in enumerate(reader.inputs) if name == rows]
        grids |= {(inputs[i + 1], inputs[i + 2]) for i in at}
    if len(grids) != 1:
        return None
    scale, zero = grids.pop()
    stored = view.source.initializers[table].data_type
    is_real = _is_number(view, scale, _REAL) and _is_number(view, zero, (stored,))
    return (scale, zero) if is_real else None


def _is_number(view: SourceView, name: str, types: Sequence[int]) -> bool:
    """Return whether a scale or zero point is a constant of one element of some types."""
    proto = view.source.initializers.get(name)
    return proto is not None and math.prod(proto.dims) == 1 and proto.data_type in types


def _from_real_table(
    view: SourceView, gather: SourceNode, grid: tuple[str, str]
) -> dict[str, list[SourceNode]]:
    """Return the nodes that replace a Gather and the readers that dequantize, by their names."""
    (rows,), (table, *indices) = gather.outputs, gather.inputs
    readers = view.readers(rows)
    dequantized = [node for node in readers if node.full_type in _DEQUANTIZE]
    real_rows = dequantized[0].outputs[0] if dequantized else view.fresh(f"{rows}.real")
    real_table = view.fresh(f"{table}.real")
    nodes = [
        _node(gather, "DequantizeLinear", [table, *grid], real_table, real_table),
        _node(gather, "Gather", [real_table, *indices], real_rows, gather.name),
    ]
    nodes[-1].proto.attribute.extend(gather.proto.attribute)
    if len(dequantized) < len(readers):
        name = view.fresh(f"{gather.name}.stored")
        nodes.append(_node(gather, "QuantizeLinear", [real_rows, *grid], rows, name))
    made: dict[str, list[SourceNode]] = {gather.name: nodes}
    for node in dequantized:
        (out,) = node.outputs
        is_first = out == real_rows
        made[node.name] = [] if is_first else [_node(node, "Identity", [real_rows], out, node.name)]
    return made


def _node(of: SourceNode, op_type: str, inputs: list[str], output: str, name: str) -> SourceNode:
    """Return a node of ONNX's own operator that replaces another node, or a part of it."""
    proto: NodeProto = helper.make_node(op_type, inputs, [output], name=name)
    return structs.replace(
        of,
        name=name,
        op_type=op_type,
        domain="",
        inputs=tuple(inputs),
        outputs=(output,),
        proto=proto,
    )
