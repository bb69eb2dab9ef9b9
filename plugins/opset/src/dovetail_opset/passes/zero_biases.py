"""Biases of zeros for convolutions without one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Graph
from dovetail_opset._package import is_op
from dovetail_opset.build import static
from dovetail_opset.families import FAMILIES

_CONVOLUTIONS = (*FAMILIES["convolution"], *FAMILIES["transposed"])
_BIAS = 2


@dataclass(frozen=True, slots=True)
class ZeroBiases:
    """Add a bias of zeros to each convolution without a bias, named after the node.

    So the SDK's converters write models. It runs on request only.
    """

    name: str = "zero-biases"
    phase: str = "late"
    after: str | None = None
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            y = node.outputs[0]
            if not is_op(node, *_CONVOLUTIONS) or not y.dtype.is_float:
                continue
            if len(node.inputs) > _BIAS and node.inputs[_BIAS] is not None:
                continue
            zeros = np.zeros(y.shape[-1], y.dtype.storage)
            bias = static(graph, f"{node.name}.bias", zeros, y.dtype)
            graph.set_inputs(node, [*node.inputs[:_BIAS], bias, *node.inputs[_BIAS + 1 :]])
            changed = True
        return changed
