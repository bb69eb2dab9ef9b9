"""Replacement of ops that a param selects by the single ops of the same meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.ir import Graph, Node
from dovetail.ops import Op
from dovetail_opset._package import PACKAGE, is_op
from dovetail_opset.ops.activation import ElementWiseNeuron, Neuron
from dovetail_opset.ops.binary import ElementWiseBinary
from dovetail_opset.ops.unary import ElementWiseUnary
from dovetail_opset.passes._rewrite import bound

_NEURONS: dict[Neuron, tuple[str, tuple[str, ...]]] = {
    Neuron.ELU: ("Elu", ("alpha",)),
    Neuron.GELU: ("Gelu", ()),
    Neuron.HARD_SWISH: ("HardSwish", ()),
    Neuron.RELU: ("Relu", ()),
    Neuron.RELU_MIN_MAX: ("ReluMinMax", ("min_value", "max_value")),
    Neuron.SIGMOID: ("Sigmoid", ()),
    Neuron.SOFTPLUS: ("ElementWiseSoftplus", ("beta", "threshold")),
    Neuron.TANH: ("Tanh", ()),
}


@dataclass(frozen=True, slots=True)
class SingleOps:
    """Replace ElementWiseUnary, ElementWiseBinary and ElementWiseNeuron by single ops.

    RECIPROCAL and HARD_SIGMOID have no single op and stay.
    """

    name: str = "single-ops"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "ElementWiseUnary", "ElementWiseBinary", "ElementWiseNeuron"):
                changed |= _replace(graph, node)
        return changed


def _replace(graph: Graph, node: Node) -> bool:
    found = _single(bound(node))
    if found is None:
        return False
    op_type, params = found
    fields = PACKAGE.schemas[op_type].params
    graph.remove_node(node)
    graph.add_node(
        Node(
            node.name,
            PACKAGE.name,
            op_type,
            node.inputs,
            node.outputs,
            {name: fields[name].param_of(value, node.name) for name, value in params.items()},
            sources=node.sources,
        )
    )
    return True


def _single(op: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the op of the same meaning and its params; None if there is none."""
    if isinstance(op, ElementWiseUnary | ElementWiseBinary):
        name = type(op.single).__name__
        return (name, {}) if _is_registered(op.single, name) else None
    if not isinstance(op, ElementWiseNeuron) or op.operation not in _NEURONS:
        return None
    op_type, names = _NEURONS[op.operation]
    given = {name: getattr(op, name) for name in names}
    if given.get("beta") == 0:
        return None  # the single op rejects it
    # omitted params have the same meaning in both
    return op_type, {name: value for name, value in given.items() if value is not None}


def _is_registered(op: Op, name: str) -> bool:
    schema = PACKAGE.schemas.get(name)
    return schema is not None and schema.op is type(op)
