"""Readable text form of graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir.encodings import Encoding, ScaleOffset
from dovetail.ir.graph import Graph, Node, Param
from dovetail.ir.tensor import Scalar, Tensor


def to_text(graph: Graph) -> str:
    """Return a graph as text: interface, static tensors, then one line for each node."""
    return "\n".join(_lines(graph)) + "\n"


def tensor_type(tensor: Tensor) -> str:
    """Return type, shape and encoding of a tensor, as `FLOAT_32[1, 8, 8, 1]`."""
    text = f"{tensor.dtype.name}{list(tensor.shape)}"
    return text if tensor.encoding is None else f"{text} {encoding_text(tensor.encoding)}"


def encoding_text(encoding: Encoding) -> str:
    """Return a short description of an encoding."""
    bits = "" if encoding.bitwidth is None else f", {encoding.bitwidth} bits"
    if isinstance(encoding, ScaleOffset):
        return f"(scale {np.float32(encoding.scale)!s}, offset {encoding.offset}{bits})"
    axis = f" on axis {axis}" if (axis := getattr(encoding, "axis", None)) is not None else ""
    return f"({encoding.kind.name}{axis}{bits})"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {graph.name} {{"
    for tensor in graph.tensors.values():
        if tensor.kind.is_input or tensor.kind.is_output or tensor.kind.is_static:
            yield f"  {tensor.kind.name.lower()} %{tensor.name}: {tensor_type(tensor)}"
    for node in graph.nodes:
        yield f"  {_node_text(node)}"
    yield "}"


def _node_text(node: Node) -> str:
    outputs = ", ".join(f"%{t.name}: {tensor_type(t)}" for t in node.outputs)
    inputs = ", ".join("none" if t is None else f"%{t.name}" for t in node.inputs)
    params = ", ".join(f"{name}={_param_text(p)}" for name, p in sorted(node.params.items()))
    settings = f" {{{params}}}" if params else ""
    known = [s for s in node.sources if s != node.name]
    origin = f"  # {', '.join(known)}" if known else ""
    return f"{outputs} = {node.package}::{node.op_type}({inputs}){settings} '{node.name}'{origin}"


def _param_text(param: Param) -> str:
    if isinstance(param, Scalar):
        return str(param.value)
    if param.data is None:
        return "(no data)"
    return np.array2string(param.values(), separator=", ", threshold=16).replace("\n", "")
