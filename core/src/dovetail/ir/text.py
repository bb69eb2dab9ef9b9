"""Readable text form of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.ir.encodings import Encoding, Mapped, ScaleOffset, Shape, Vector
from dovetail.ir.graph import Graph, Node, Param
from dovetail.ir.tensor import DataFormat, MemoryType, Scalar, Tensor


def to_text(graph: Graph) -> str:
    """Return a graph as text: interface, static tensors, then one line for each node."""
    return "\n".join(_lines(graph)) + "\n"


def tensor_type(tensor: Tensor) -> str:
    """Return type, shape, encoding and storage of a tensor, as `FLOAT_32[<=1, 8, 8, 1]`."""
    parts = [f"{tensor.dtype.name}[{', '.join(shape_texts(tensor.shape, tensor.dynamic))}]"]
    if tensor.encoding is not None:
        parts.append(encoding_text(tensor.encoding))
    if tensor.data_format is not DataFormat.DENSE:
        parts.append(tensor.data_format.name)
    if tensor.memory_type is not MemoryType.RAW:
        parts.append(tensor.memory_type.name)
    return " ".join(parts)


def shape_texts(shape: Shape, dynamic: Sequence[bool]) -> list[str]:
    """Return the size of each axis; `<=8` for a dynamic one of at most 8."""
    marks = (*dynamic, *(False,) * len(shape))  # `dynamic` may be empty
    return [f"<={n}" if is_dynamic else str(n) for n, is_dynamic in zip(shape, marks, strict=False)]


def encoding_text(encoding: Encoding) -> str:
    """Return a short description of an encoding."""
    bits = "" if encoding.bitwidth is None else f", {encoding.bitwidth} bits"
    if isinstance(encoding, ScaleOffset):
        return f"(scale {np.float32(encoding.scale)!s}, offset {encoding.offset}{bits})"
    base = encoding.base if isinstance(encoding, Mapped | Vector) else encoding
    axis = f" on axis {axis}" if (axis := getattr(base, "axis", None)) is not None else ""
    mapping = f", {encoding.mapping.name}" if isinstance(encoding, Mapped) else ""
    return f"({encoding.kind.name}{axis}{bits}{mapping})"


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
    params = ", ".join(f"{name}={param_text(p)}" for name, p in sorted(node.params.items()))
    settings = f" {{{params}}}" if params else ""
    known = [s for s in node.sources if s != node.name]
    origin = f"  # {', '.join(known)}" if known else ""
    return f"{outputs} = {node.package}::{node.op_type}({inputs}){settings} '{node.name}'{origin}"


def param_text(param: Param) -> str:
    """Return the value of a param; of a large array, its ends."""
    if isinstance(param, Scalar):
        return str(param.value)
    if param.data is None:
        return "(no data)"
    return np.array2string(param.values(), separator=", ", threshold=16).replace("\n", "")
