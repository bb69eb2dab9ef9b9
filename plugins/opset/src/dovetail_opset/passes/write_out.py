"""Ops that some backends lack, written out in ops that they have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dovetail.ir import Graph, Node, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add, static
from dovetail_opset.passes._rewrite import bound, first_input, is_float

# Beyond this, a float32 does not distinguish log(1 + exp(x)) from x.
_LARGE = 16.0

Step = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class WriteOut:
    """Replace nodes of some ops by nodes of others with the same result.

    Attributes:
        op_types: Their names; see `can_write_out`.
    """

    op_types: Collection[str]
    name: str = "write-out"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        nodes = [n for n in graph.nodes if is_op(n, *self.op_types) and can_write_out(n)]
        for node in nodes:
            params = {name: getattr(bound(node), name) for name in node.params}
            graph.remove_node(node)
            step = partial(_step, graph, node)
            _WRITERS[node.op_type](step, first_input(node), node.outputs[0], params)
            if (last := graph.producer(node.outputs[0])) is not None:
                graph.rename({}, {last: node.name})
        return bool(nodes)


def can_write_out(node: Node) -> bool:
    """Return whether a node can be written out in other ops."""
    op: Any = bound(node)
    if op is None or node.op_type not in _WRITERS or not is_float(*node.inputs):
        return False
    if is_op(node, "ReduceSumSquare"):
        return bool(first_input(node).shape)
    return bool(op.beta == 1 and not 0 <= op.threshold < _LARGE)


def _step(graph: Graph, node: Node, op_type: str, *inputs: Tensor | float, **params: Any) -> Tensor:
    """Add a node in place of another one; numbers become constants of its input's type."""
    dtype = first_input(node).dtype
    given = [
        each
        if isinstance(each, Tensor)
        else static(graph, f"{node.name}.number", np.array(each, dtype.storage))
        for each in inputs
    ]
    name = f"{node.name}.{op_type.removeprefix('ElementWise').lower()}"
    return add(graph, op_type, given, name=name, sources=node.sources, **params)


def _reduce_sum_square(step: Step, x: Tensor, y: Tensor, params: dict[str, Any]) -> None:
    step("ReduceSum", step("ElementWiseMultiply", x, x), outputs=y, **params)


def _softplus(step: Step, x: Tensor, y: Tensor, params: dict[str, Any]) -> None:
    # max(x, 0) + log(1 + exp(-|x|)), in which no part overflows
    small = step("ElementWiseExp", step("ElementWiseNeg", step("ElementWiseAbs", x)))
    rest = step("ElementWiseLog", step("ElementWiseAdd", small, 1.0))
    step("ElementWiseAdd", step("Relu", x), rest, outputs=y)


_WRITERS: Mapping[str, Callable[[Step, Tensor, Tensor, dict[str, Any]], None]] = {
    "ReduceSumSquare": _reduce_sum_square,
    "ElementWiseSoftplus": _softplus,
}
