"""Groups of nodes that run together, as the kernels that fuse them allow."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.ir import Node
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.plan.kernels import Branch, KernelRegistry


def groups_of(graph: CheckedGraph, kernels: KernelRegistry) -> Iterator[list[NodeView]]:
    """Yield groups of nodes that run together, at the position of their last node."""
    chains: dict[Node, list[NodeView]] = {}  # by the last node
    absorbed: set[Node] = set()
    for view in graph.nodes:
        if view.node in absorbed:
            continue
        chain = _chain(graph, view, kernels, absorbed)
        absorbed.update(link.node for link in chain)
        chains[chain[-1].node] = chain
    for view in graph.nodes:
        if view.node in chains:
            yield chains[view.node]


def _chain(
    graph: CheckedGraph,
    head: NodeView,
    kernels: KernelRegistry,
    absorbed: set[Node],
) -> list[NodeView]:
    chain, kernel = [head], kernels.find(head)
    if kernel is None:
        return chain
    on_integers = kernels.runs_on_integers(head)
    while kernel.can_fuse is not None:
        longer = list(chain)
        for node in _following(graph, chain[-1].node, kernel.branch):
            view = graph.view(node)
            # what runs on integers alone, or is simulated alone, has other results
            if node in absorbed or on_integers != kernels.runs_on_integers(view):
                return chain
            if not kernel.can_fuse(longer, view):
                return chain
            longer.append(view)
        if len(longer) == len(chain):
            break
        chain = longer
    return chain


def _following(graph: CheckedGraph, node: Node, branch: Branch | None) -> tuple[Node, ...]:
    """Return the next nodes to fuse: the only reader of a result, or a branch and its join."""
    if branch is Branch.SIBLING:
        return _sibling(graph, node)
    if (reader := _only_reader(graph, node)) is not None:
        return (reader,)
    return _gate(graph, node) if branch is Branch.GATE else ()


def _gate(graph: CheckedGraph, node: Node) -> tuple[Node, ...]:
    if len(node.outputs) != 1 or not graph.is_internal(node.outputs[0]):
        return ()
    result, readers = node.outputs[0], graph.consumers(node.outputs[0])
    for gate, joint in (readers, readers[::-1]) if len(readers) == 2 else ():
        is_gate = gate.inputs == (result,) and _only_reader(graph, gate) is joint
        if is_gate and _joins(joint, node, gate):
            return gate, joint
    return ()


def _sibling(graph: CheckedGraph, node: Node) -> tuple[Node, ...]:
    joint = _only_reader(graph, node)
    if joint is None:
        return ()
    for tensor in joint.inputs:
        sibling = None if tensor is None else graph.producer(tensor)
        if sibling is None or sibling is node or sibling.inputs[:1] != node.inputs[:1]:
            continue
        same_op = (sibling.package, sibling.op_type) == (node.package, node.op_type)
        if same_op and _only_reader(graph, sibling) is joint and _joins(joint, node, sibling):
            return sibling, joint
    return ()


def _joins(joint: Node, *nodes: Node) -> bool:
    """Return whether a node reads the first outputs of these nodes, and besides only constants."""
    read = [t for t in joint.inputs if t is None or not t.kind.is_static]
    return sorted(map(id, read)) == sorted(id(node.outputs[0]) for node in nodes)


def _only_reader(graph: CheckedGraph, node: Node) -> Node | None:
    """Return the only reader of the first output, if nothing else uses the node's outputs."""
    result, *others = node.outputs
    reader = graph.only_reader(result)
    if reader is None or reader.inputs.count(result) > 1:
        return None
    is_read = any(graph.is_visible(t) or graph.consumers(t) for t in others)
    return None if is_read else reader
