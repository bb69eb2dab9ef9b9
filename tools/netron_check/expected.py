"""The facts that Netron must show of a graph, by the format of the file."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import dovetail
from dovetail.ir import DType, Graph, Node, Param, ScaleOffset, Tensor, TensorKind
from dovetail_qnn._names import FileNames
from dovetail_qnn.dlc._op_types import write_op
from netron_check.facts import DATA_LENGTH, Facts, plain, title_of

_FAMILIES = {"UFIXED_POINT": "quint", "SFIXED_POINT": "qint"}
# Of the scalars in a DLC that Netron reads, it names the types so.
_DLC_TYPES = {DType.UINT_8: "int8", DType.UINT_32: "int32", DType.INT_32: None}
_OMITTED = "null_tensor"
_NO_DATA = "Tensor data is empty."


def json_facts(graph: Graph) -> Facts:
    """Return the facts of `X_net.json` with `X.bin`."""
    names = FileNames(graph)
    facts: Facts = {
        "model format": "QNN",
        "model producer": "dovetail",
        "inputs": [names.tensors[t] for t in graph.inputs],
        "outputs": [names.tensors[t] for t in graph.outputs],
        "nodes": len(graph.nodes),
        "edges": _edges(graph, with_ends=True),
    }
    for where, tensor in _ends(graph):
        facts |= _json_value(where, tensor, names.tensors[tensor])
    for where, node in _nodes(graph):
        facts[f"{where} title"] = title_of(node.op_type)
        facts[f"{where} type"] = node.op_type
        facts[f"{where} module"] = node.package
        facts[f"{where} name"] = names.nodes[node]
        for side, omissible in _sides(where, node):
            name = "" if omissible is None else names.tensors[omissible]
            facts |= _json_value(side, omissible, name)
        for name, param in node.params.items():
            facts |= _json_param(f"{where} attribute {name}", param)
    return facts


def _json_value(where: str, tensor: Tensor | None, name: str) -> Facts:
    facts: Facts = {f"{where} name": name}
    if tensor is None:
        return facts
    facts[f"{where} tensor"] = _type_of(tensor)
    if tensor.kind.is_static:
        # Netron does not read the headers with names that are longer.
        is_found = len(f"{name}.raw") <= 100
        facts[f"{where} data"] = _data_of(tensor) if is_found else _NO_DATA
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset) and tensor.kind is not TensorKind.NATIVE:
        scale, offset = float(encoding.scale), int(encoding.offset)
        if encoding.bitwidth is None and (scale, offset) != (1, 0):
            facts |= {f"{where} scale": scale, f"{where} offset": offset}
    return facts


def _json_param(where: str, param: Param) -> Facts:
    if isinstance(param, Tensor):
        return {f"{where} tensor": _type_of(param), f"{where} data": _data_of(param)}
    value = int(param.value) if param.dtype is DType.BOOL_8 else param.value
    if param.dtype.is_float and not np.isfinite(param.value):
        value = str(param.value)
    return {where: plain(value), f"{where} type": _name_of(param.dtype)}


def dlc_facts(graph: Graph) -> Facts:
    """Return the facts of a DLC.

    Netron shows no inputs, outputs and encodings of a DLC, and no data, which are in a member that
    it does not read. Of the 8 bytes of a real number it reads the first 4.
    """
    facts: Facts = {
        "model format": "DLC",
        "model source": f"dovetail v{dovetail.__version__}",
        "graph name": graph.name,
        "inputs": [],
        "outputs": [],
        "nodes": len(graph.nodes),
        "edges": _edges(graph, with_ends=False),
    }
    for where, node in _nodes(graph):
        written = write_op(node.op_type, node.package, node.params)
        facts[f"{where} title"] = title_of(written.name)
        facts[f"{where} type"] = written.name
        facts[f"{where} name"] = node.name
        for side, omissible in _sides(where, node, with_trailing=True):
            facts |= _dlc_value(side, omissible)
        for name, text in {**written.extras, "packageName": node.package}.items():
            facts |= {f"{where} attribute {name}": text, f"{where} attribute {name} type": "string"}
        for name, param in written.params.items():
            facts |= _dlc_param(f"{where} attribute {name}", param)
    return facts


def _dlc_value(where: str, tensor: Tensor | None) -> Facts:
    if tensor is None:
        return {f"{where} name": _OMITTED, f"{where} tensor": "float32[0]"}
    facts: Facts = {f"{where} name": tensor.name, f"{where} tensor": _type_of(tensor)}
    return facts | ({f"{where} data": _NO_DATA} if tensor.kind.is_static else {})


def _dlc_param(where: str, param: Param) -> Facts:
    if isinstance(param, Tensor):
        return {f"{where} tensor": _type_of(param), f"{where} data": _NO_DATA}
    type_ = _DLC_TYPES.get(param.dtype, _name_of(param.dtype))
    value: Any = param.value
    if param.dtype.is_float:
        value = np.array([value], "<f8").view("<f4")[0].item()
    elif param.dtype is not DType.BOOL_8 and not isinstance(value, str):
        value = int(np.array(value).astype(np.int32))
    return {where: plain(value)} | ({f"{where} type": type_} if type_ else {})


def onnx_facts(path: Path) -> Facts:
    """Return the facts of an ONNX model, without attributes, data and the types of inner values."""
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    given = [value.name for value in graph.input if value.name not in constants]
    results = [value.name for value in graph.output]
    makers: dict[str, Hashable] = {name: ("input", name) for name in given}
    makers |= {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    pairs = {(makers[n], i) for i, node in enumerate(graph.node) for n in node.input if n in makers}
    ends = {(makers[name], ("output", name)) for name in results}
    facts: Facts = {
        "inputs": given,
        "outputs": results,
        "nodes": len(graph.node),
        "edges": len(pairs) + len(ends),
    }
    for section, values in (("input", graph.input), ("output", graph.output)):
        for i, value in enumerate(values):
            facts[f"{section} {i} name"] = value.name
            facts[f"{section} {i} tensor"] = _onnx_type(value.type.tensor_type)
    for i, node in enumerate(graph.node):
        facts |= {f"node {i} title": title_of(node.op_type), f"node {i} name": node.name}
        facts |= {f"node {i} type": node.op_type}
        for side, names in (("input", node.input), ("output", node.output)):
            facts |= {f"node {i} {side} {j} name": n for j, n in enumerate(names) if n}
    return facts


def _onnx_type(given: onnx.TypeProto.Tensor) -> str:
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(given.elem_type)).name
    dims = ",".join(dim.dim_param or str(dim.dim_value) for dim in given.shape.dim)
    return f"{dtype}[{dims}]" if dims else dtype


def _nodes(graph: Graph) -> Iterator[tuple[str, Node]]:
    return ((f"node {i}", node) for i, node in enumerate(graph.nodes))


def _ends(graph: Graph) -> Iterator[tuple[str, Tensor]]:
    yield from ((f"input {i}", tensor) for i, tensor in enumerate(graph.inputs))
    yield from ((f"output {i}", tensor) for i, tensor in enumerate(graph.outputs))


def _sides(
    where: str, node: Node, *, with_trailing: bool = False
) -> Iterator[tuple[str, Tensor | None]]:
    """Yield inputs, by default without the omitted ones at the end, and outputs."""
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None and not with_trailing:
        inputs.pop()
    yield from ((f"{where} input {i}", tensor) for i, tensor in enumerate(inputs))
    yield from ((f"{where} output {i}", tensor) for i, tensor in enumerate(node.outputs))


def _edges(graph: Graph, *, with_ends: bool) -> int:
    """Return the number of pairs of nodes, or of a node and a graph's end, that share a tensor."""
    makers: Mapping[Tensor, Hashable] = {
        tensor: i for i, node in enumerate(graph.nodes) for tensor in node.outputs
    }
    pairs: set[tuple[Hashable, Hashable]] = set()
    if with_ends:
        makers = {**makers, **{tensor: tensor.name for tensor in graph.inputs}}
        pairs = {(makers[tensor], tensor.name) for tensor in graph.outputs}
    for i, node in enumerate(graph.nodes):
        pairs |= {(makers[t], i) for t in node.inputs if t is not None and t in makers}
    return len(pairs)


def _name_of(dtype: DType) -> str:
    family, _, bits = dtype.name.rpartition("_")
    if dtype is DType.BOOL_8:
        return "boolean"
    return f"{_FAMILIES.get(family, family.lower())}{bits}" if family else dtype.name.lower()


def _type_of(tensor: Tensor) -> str:
    dims = ",".join(map(str, tensor.shape))
    return _name_of(tensor.dtype) + (f"[{dims}]" if dims else "")


def _data_of(tensor: Tensor) -> Any:
    if tensor.dtype.is_packed:
        return f"Tensor data type '{_name_of(tensor.dtype)}' is not implemented."
    values = tensor.stored() if tensor.dtype.is_fixed_point else tensor.values()
    return list(map(plain, values.reshape(-1)[:DATA_LENGTH].tolist()))
