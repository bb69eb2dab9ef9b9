"""Recognition of tensors without negative values."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Graph, Node, Tensor

_NEVER_NEGATIVE = frozenset(
    ("Relu", "Relu6", "Sigmoid", "Softmax", "ElementWiseAbs", "ElementWiseExp", "L2Pool2d")
)
# Ops that return elements of their inputs, or combinations of them that preserve the sign.
_KEEPS_SIGN = frozenset(
    (
        "Concat",
        "Dropout",
        "ElementWiseAdd",
        "ElementWiseMaximum",
        "ElementWiseMultiply",
        "Gather",
        "PoolAvg2d",
        "PoolAvg3d",
        "PoolMax2d",
        "PoolMax3d",
        "ReduceMax",
        "ReduceMean",
        "Reshape",
        "Split",
        "StridedSlice",
        "Transpose",
    )
)
_DEPTH = 12  # far enough for what networks do between two activations


def is_nonnegative(graph: Graph, tensor: Tensor, depth: int = _DEPTH) -> bool:
    """Return whether all elements of a tensor are known to be 0 or more."""
    if tensor.dtype.storage.kind == "u" and not tensor.dtype.is_float:
        return True
    if tensor.data is not None:
        return bool(np.all(tensor.values() >= 0))
    node = graph.producer(tensor)
    if node is None or depth == 0:
        return False
    if node.op_type in _NEVER_NEGATIVE or _clips_at_zero(node):
        return True
    return node.op_type in _KEEPS_SIGN and all(
        is_nonnegative(graph, t, depth - 1) for t in _data_inputs(node)
    )


def _clips_at_zero(node: Node) -> bool:
    least = node.params.get("min_value")
    return node.op_type == "ReluMinMax" and getattr(least, "value", -1.0) >= 0


def _data_inputs(node: Node) -> list[Tensor]:
    inputs = node.inputs[:1] if node.op_type == "Gather" else node.inputs
    return [t for t in inputs if t is not None]
