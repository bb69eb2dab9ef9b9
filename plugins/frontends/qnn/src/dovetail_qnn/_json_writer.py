"""Writing of `X_net.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.ir import Graph, Node, Tensor
from dovetail_qnn._description import without_trailing
from dovetail_qnn._extras import KEY, Extras
from dovetail_qnn._header import Header
from dovetail_qnn._inline import dump_scalar, dump_values
from dovetail_qnn._json_reader import BIN, CPP, GRAPH
from dovetail_qnn._layouts import layouts_of
from dovetail_qnn._names import FileNames
from dovetail_qnn._quantization import dump_quantization

_NUMERIC_PARAM, _TEXT_PARAM = 1, 2


def json_text(
    graph: Graph, names: FileNames, extras: Extras | None, header: Header, work: Mapping[Node, int]
) -> bytes:
    """Return the text of a file; equal graphs produce equal bytes.

    Args:
        graph: The graph.
        names: Names in the file.
        extras: What the other keys do not say.
        header: The keys besides the graph.
        work: Multiply-accumulates of the nodes whose ops are known.

    Raises:
        UnicodeError: Text contains half a surrogate pair.
    """
    counts = {t: math.prod(t.shape) for t in graph.tensors.values() if t.kind.is_static}
    parameters, macs = sum(counts.values()), sum(work.values())
    ids = {t: number for number, t in enumerate(graph.tensors.values(), 1)}
    tensors = {
        names.tensors[t]: _tensor(t, number) | _share(t, counts, parameters)
        for t, number in ids.items()
    }
    next_id = len(ids) + 1
    nodes = {}
    for node in graph.nodes:
        tensor_params = _tensor_params(node, names, next_id)
        next_id += len(tensor_params)
        nodes[names.nodes[node]] = _node(node, names, tensor_params) | {
            "macs_per_inference": _part(work[node], macs) if node in work else ""
        }
    content: dict[str, Any] = {
        CPP: header.cpp,
        BIN: header.bin,
        "converter_command": header.command,
        "copyright_str": header.copyright,
        "op_types": sorted({node.op_type for node in graph.nodes}),
        "Total parameters": f"{parameters} ({4 * parameters / 2**20:.2f} MB as float32)",
        "Total MACs per inference": f"{macs / 1e6:.6g}M",
    }
    if header.version:
        content["model_version"] = header.version
    if extras is not None:
        content[KEY] = extras
    return msgspec.json.encode(content | {GRAPH: {"tensors": tensors, "nodes": nodes}})


def _tensor(tensor: Tensor, number: int) -> dict[str, Any]:
    layout, source = layouts_of(tensor.source_perm, static=tensor.kind.is_static)
    return {
        "id": number,
        "type": int(tensor.kind),
        "dataFormat": int(tensor.data_format),
        "data_type": int(tensor.dtype),
        "axis_format": layout,
        "src_axis_format": source,
        "quant_params": dump_quantization(tensor.encoding, tensor.dtype),
        "dims": list(tensor.shape),
    }


def _share(tensor: Tensor, counts: Mapping[Tensor, int], total: int) -> dict[str, Any]:
    return {"params_count": _part(counts[tensor], total)} if tensor in counts else {}


def _part(count: int, total: int) -> str:
    """Return a count and its share of a total."""
    return f"{count} ({100 * count / total:.2f}%)" if total else str(count)


def _tensor_params(node: Node, names: FileNames, next_id: int) -> dict[str, Any]:
    tensors = {n: param for n, param in node.params.items() if isinstance(param, Tensor)}
    return {
        name: {
            names.params[node, name]: _tensor(tensor, next_id + i) | {"data": dump_values(tensor)}
        }
        for i, (name, tensor) in enumerate(tensors.items())
    }


def _node(node: Node, names: FileNames, tensor_params: dict[str, Any]) -> dict[str, Any]:
    scalars = {n: dump_scalar(p) for n, p in node.params.items() if not isinstance(p, Tensor)}
    texts = {n for n, s in scalars.items() if any(isinstance(v, str) for v in s.values())}
    return {
        "package": node.package,
        "type": node.op_type,
        "tensor_params": tensor_params,
        "scalar_params": scalars,
        "input_names": [
            "" if tensor is None else names.tensors[tensor]
            for tensor in without_trailing(node.inputs)
        ],
        "output_names": [names.tensors[tensor] for tensor in node.outputs],
        "param_map": {n: _TEXT_PARAM if n in texts else _NUMERIC_PARAM for n in node.params},
    }
