"""The quantized tensors of a graph in its exported ONNX file.

Every tensor becomes an output of the exported model. A real output ends in a DequantizeLinear, and
maybe a Transpose for its own order of axes: the integers before those are what the vendor stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from dovetail.ir import Graph, Tensor, copy_graph
from dovetail_onnx.exporter import OnnxExportOptions, OnnxQdqExporter

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Stored:
    """The integers of one of our tensors in the ONNX file.

    Attributes:
        value: Name of the integers in the file.
        perms: Permutations from the file's order of axes to ours.
        added: The exporter adds it to stored values: 128 for signed activations of 8 bits.
    """

    value: str
    perms: tuple[tuple[int, ...], ...]
    added: int

    def ours(self, values: Array, tensor: Tensor) -> Array:
        """Return the file's integers as our tensor stores them."""
        for perm in self.perms:
            values = values.transpose(perm)
        shifted = values.astype(np.int64) - self.added
        return np.asarray(shifted, tensor.dtype.storage).reshape(tensor.shape)


def export_exposed(graph: Graph, path: Path) -> dict[str, Stored]:
    """Write a graph as ONNX whose outputs are the integers of all quantized tensors.

    Returns:
        Those of our tensors that the file has, by name.
    """
    chosen = [t.name for t in graph.tensors.values() if _is_quantized_activation(t)]
    inner = [name for name in chosen if not graph.tensors[name].kind.is_input]
    OnnxQdqExporter().export(copy_graph(graph, outputs=inner), path, OnnxExportOptions())
    model = onnx.load(path)
    found = {name: _stored(model, name, graph.tensors[name]) for name in inner}
    found |= {t.name: _input(model, t) for t in graph.inputs if t.name in chosen}
    exposed = {name: each for name, each in found.items() if each is not None}
    _replace_outputs(model, list(dict.fromkeys(each.value for each in exposed.values())))
    onnx.save(model, path)
    return exposed


def _is_quantized_activation(tensor: Tensor) -> bool:
    return tensor.dtype.is_fixed_point and tensor.encoding is not None and not tensor.kind.is_static


def _stored(model: ModelProto, name: str, tensor: Tensor) -> Stored | None:
    """Follow an output back to its integers; None if other operators are in between."""
    producers = {output: node for node in model.graph.node for output in node.output}
    perms: list[tuple[int, ...]] = []
    while (node := producers.get(name)) is not None:
        if node.op_type == "Transpose":
            perms.insert(0, tuple(helper.get_node_attr_value(node, "perm")))
        elif node.op_type == "DequantizeLinear":
            return Stored(node.input[0], tuple(perms), _added(model, node, tensor))
        elif node.op_type != "Identity":
            return None
        name = node.input[0]
    return None


def _input(model: ModelProto, tensor: Tensor) -> Stored | None:
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] == tensor.name:
            return Stored(node.output[0], (), _added(model, node, tensor))
    return None


def _added(model: ModelProto, node: NodeProto, tensor: Tensor) -> int:
    """Return by how much the file's zero point is higher than ours."""
    encoding = tensor.encoding
    if encoding is None or len(node.input) < 3:
        return 0
    (zero,) = (numpy_helper.to_array(i) for i in model.graph.initializer if i.name == node.input[2])
    _, offsets = encoding.scales_and_offsets(tensor.shape)
    return int(zero.reshape(-1)[0]) + int(np.asarray(offsets).reshape(-1)[0])


def _replace_outputs(model: ModelProto, names: Sequence[str]) -> None:
    types: Mapping[str, int] = {i.name: i.data_type for i in model.graph.initializer}
    kinds = {
        node.output[0]: types[node.input[2]] if len(node.input) > 2 else TensorProto.UINT8
        for node in model.graph.node
        if node.op_type == "QuantizeLinear"
    }
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(n, kinds[n], None) for n in names)
    needed, kept = set(names), []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept[::-1])
