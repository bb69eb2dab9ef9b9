"""The subgraphs of If, Loop and Scan, as nodes that replace them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, TensorProto

from dovetail_onnx._source import subgraphs


@dataclass(frozen=True, slots=True)
class Body:
    """A subgraph instantiated for one iteration.

    Attributes:
        nodes: Its nodes, with new names.
        outputs: The names that its outputs have there.
        initializers: Its constants by those names.
    """

    nodes: list[NodeProto]
    outputs: list[str]
    initializers: dict[str, TensorProto]


def instantiate(graph: GraphProto, prefix: str, given: Mapping[str, str]) -> Body:
    """Return a subgraph whose own names are unique in the model.

    Args:
        graph: The graph.
        prefix: Put before the names that the graph defines.
        given: The values of its inputs, by name.
    """
    names = dict(given)
    names |= {tensor.name: prefix + tensor.name for tensor in graph.initializer}
    names |= {n: prefix + n for node in graph.node for n in node.output if n}
    nodes = []
    for i, node in enumerate(graph.node):
        made = _renamed(node, names)
        made.name = f"{prefix}{node.name or f'{node.op_type}_{i}'}"
        nodes.append(made)
    return Body(
        nodes,
        [names.get(output.name, output.name) for output in graph.output],
        {names[tensor.name]: tensor for tensor in graph.initializer},
    )


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """Return a node that reads and writes tensors under other names, its graphs included."""
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(name, name) for name in node.input]
    made.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(made):
        _rename_captured(graph, names)
    return made


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    captured = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.CopyFrom(_renamed(node, captured))
    for output in graph.output:
        output.name = captured.get(output.name, output.name)
