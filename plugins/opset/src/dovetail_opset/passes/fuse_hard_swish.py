"""Recognition of HardSwish written in small ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import bind_node
from dovetail_opset._package import is_op, schema_of
from dovetail_opset.build import add
from dovetail_opset.ops.activation import ElementWiseNeuron, Neuron, ReluMinMax
from dovetail_opset.passes._patterns import (
    factor_of,
    is_closed,
    is_factor,
    maker,
    one_number,
    with_number,
)
from dovetail_opset.passes.dead_code import DeadCode

# Two tensors and a number, and the nodes that give the product of the three.
_Product = tuple[tuple[Tensor, Tensor], float, list[Node]]


@dataclass(frozen=True, slots=True)
class FuseHardSwish:
    """Fuse x * clip(x + 3, 0, 6) / 6, or x times a HARD_SIGMOID of slope 1/6, to HardSwish.

    The clip is Relu6, ReluMinMax, or a minimum and a maximum with numbers; the factor 1/6 applies
    to x, the clip or the product.
    """

    name: str = "fuse-hard-swish"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        # from the end: the last multiplication has all factors before it
        for node in reversed(graph.nodes):
            if is_op(node, "ElementWiseMultiply", "ElementWiseDivide"):
                changed |= _fuse(graph, node)
        if changed:
            DeadCode().run(graph)
        return changed


def _fuse(graph: Graph, last: Node) -> bool:
    for tensors, number, nodes in _products(graph, last):
        for x, gate in (tensors, tensors[::-1]):
            made = _gate(graph, x, gate, number)
            if made is not None:
                return _replace(graph, last, x, [*made, *nodes])
    return False


def _products(graph: Graph, last: Node) -> Iterator[_Product]:
    """Return the readings of a node's result as a product of two tensors and a number."""
    outer = factor_of(last)
    if outer is not None:
        product = maker(graph, outer[0], "ElementWiseMultiply")
        if product is not None and (pair := _pair(product)) is not None:
            yield pair, outer[1], [product, last]
    pair = _pair(last)
    if not is_op(last, "ElementWiseMultiply") or pair is None:
        return
    yield pair, 1.0, [last]
    for tensor, other in (pair, pair[::-1]):
        node = graph.producer(tensor)
        inner = factor_of(node)
        if node is not None and inner is not None:
            yield (inner[0], other), inner[1], [node, last]


def _pair(node: Node) -> tuple[Tensor, Tensor] | None:
    first, second = node.inputs
    return None if first is None or second is None else (first, second)


def _gate(graph: Graph, x: Tensor, gate: Tensor, number: float) -> list[Node] | None:
    """Return the nodes that compute the gate of x, for a factor on it."""
    if is_factor(number, 1):
        node = graph.producer(gate)
        return [node] if node is not None and _is_hard_sigmoid(node, x) else None
    clipped = _clipped(graph, gate) if is_factor(number, 1 / 6) else None
    shift = None if clipped is None else maker(graph, clipped[0], "ElementWiseAdd")
    if clipped is None or shift is None or with_number(shift) != (x, 3):
        return None
    return [shift, *clipped[1]]


def _is_hard_sigmoid(node: Node, x: Tensor) -> bool:
    schema = schema_of(node)
    if schema is None or not is_op(node, "ElementWiseNeuron") or node.inputs[0] is not x:
        return False
    op = bind_node(schema, node)
    if not isinstance(op, ElementWiseNeuron) or op.operation is not Neuron.HARD_SIGMOID:
        return False
    # left out, the slope is 0.2 and the shift 0.5
    shift = 0.5 if op.beta is None else op.beta
    return op.alpha is not None and is_factor(op.alpha, 1 / 6) and shift == 0.5


def _clipped(graph: Graph, tensor: Tensor) -> tuple[Tensor, list[Node]] | None:
    """Return the tensor that is clipped to [0, 6], and the nodes that clip it."""
    found: dict[str, float] = {}
    nodes: list[Node] = []
    current: Tensor | None = tensor
    while current is not None and len(found) < 2:
        node = graph.producer(current)
        limits = {} if node is None else dict(_limits(node))
        if node is None or not limits or not found.keys().isdisjoint(limits):
            return None
        found |= limits
        nodes.insert(0, node)
        current = _limited(node)
    if current is None or found != {"least": 0, "most": 6}:
        return None
    return current, nodes


def _limits(node: Node) -> Iterator[tuple[str, float]]:
    schema = schema_of(node)
    op = None if schema is None else bind_node(schema, node)
    if is_op(node, "Relu6"):
        yield from (("least", 0.0), ("most", 6.0))
    elif isinstance(op, ReluMinMax):
        yield from (("least", op.min_value), ("most", op.max_value))
    elif is_op(node, "Relu"):
        yield "least", 0.0
    elif is_op(node, "ElementWiseMaximum", "ElementWiseMinimum"):
        known = with_number(node)
        if known is not None:
            yield "least" if is_op(node, "ElementWiseMaximum") else "most", known[1]


def _limited(node: Node) -> Tensor | None:
    """Return the input of a clip that is not a number."""
    return next((t for t in node.inputs if one_number(t) is None), None)


def _replace(graph: Graph, last: Node, x: Tensor, nodes: list[Node]) -> bool:
    # a number of a higher rank than x would give the result one more dimension
    if last.outputs[0].spec != x.spec or not is_closed(graph, nodes, last):
        return False
    graph.remove_node(last)
    add(
        graph,
        "HardSwish",
        [x],
        name=last.name,
        outputs=last.outputs[0],
        sources=dict.fromkeys(s for node in nodes for s in node.sources),
    )
    return True
