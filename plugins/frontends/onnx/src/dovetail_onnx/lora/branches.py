"""Side branches: `y = layer(x)` becomes `y = layer(x) + B(A(x))`, with A and B as initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from dovetail.ir import Array
from dovetail_onnx.lora.attach_points import AttachPoint
from dovetail_onnx.lora.peft import LoraModule


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """The branch of a layer, with room for all adapters that are used together.

    Attributes:
        point: The layer.
        rank: The largest sum of the ranks of adapters that are used together.
    """

    point: AttachPoint
    rank: int

    @property
    def names(self) -> tuple[str, str]:
        """The names of the initializers A and B."""
        return f"{self.point.stem}.lora_A.weight", f"{self.point.stem}.lora_B.weight"

    def weights(self, modules: Sequence[LoraModule]) -> dict[str, Array]:
        """Return the values of both initializers.

        Args:
            modules: The adapters that are used together: they are concatenated along the rank, and
                the rest is zero. Factors are part of B.
        """
        ins, outs = self.point.sizes
        a = np.zeros((self.rank, *ins), np.float32)
        b = np.zeros((outs[0], self.rank, *outs[1:]), np.float32)
        at = 0
        for module in modules:
            a[at : at + module.rank] = module.a
            b[:, at : at + module.rank] = module.b * np.float32(module.factor)
            at += module.rank
        if self.point.node.op_type != "Conv":
            a, b = a.T, b.T
        dtype = helper.tensor_dtype_to_np_dtype(self.point.weight.data_type)
        made = (np.ascontiguousarray(values, dtype) for values in (a, b))
        return dict(zip(self.names, made, strict=True))


def add_branches(
    graph: GraphProto, branches: Sequence[Branch], weights: Mapping[str, Array]
) -> None:
    """Add branches to a graph, in place.

    Args:
        graph: The main graph of a model.
        branches: The branches.
        weights: Values of their initializers by name.
    """
    known = {branch.point.node.output[0]: branch for branch in branches}
    nodes: list[NodeProto] = []
    for node in list(graph.node):
        branch = known.get(node.output[0]) if node.output else None
        nodes += [node] if branch is None else _with_branch(node, branch)
    del graph.node[:]
    graph.node.extend(nodes)
    for name, values in weights.items():
        graph.initializer.append(numpy_helper.from_array(values, name))


def _with_branch(node: NodeProto, branch: Branch) -> list[NodeProto]:
    stem, (first, second) = branch.point.stem, branch.names
    base = NodeProto()
    base.CopyFrom(node)
    x, y = node.input[0], node.output[0]
    base.output[0] = f"{y}.base"
    inner, outer = f"{stem}.lora_A", f"{stem}.lora_B"
    op_type = "Conv" if node.op_type == "Conv" else "MatMul"
    made_a = helper.make_node(op_type, [x, first], [inner], name=inner)
    if op_type == "Conv":  # of the same positions; B is a convolution of 1 x 1
        made_a.attribute.extend(node.attribute)
    made_b = helper.make_node(op_type, [inner, second], [outer], name=outer)
    joined = helper.make_node("Add", [base.output[0], outer], [y], name=f"{stem}.lora_add")
    return [base, made_a, made_b, joined]


def name_clashes(graph: GraphProto, branches: Sequence[Branch]) -> list[str]:
    """Return the names that branches would add and the graph already has."""
    taken = {name for node in graph.node for name in (*node.output, node.name)}
    taken |= {tensor.name for tensor in graph.initializer}
    added = [
        name
        for branch in branches
        for name in (*branch.names, f"{branch.point.stem}.lora_A", f"{branch.point.stem}.lora_B")
    ]
    return sorted(set(added) & taken)
