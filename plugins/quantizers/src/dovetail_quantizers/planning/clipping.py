"""Relu and Relu6 that a grid replaced, restored when the quantization is extracted.

A grid that starts at 0 clips like a Relu, so quantizing tools remove the Relu before it. Without
the grid the network would compute something else.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import OpRegistry, bind_node
from dovetail.quantization import Sharing
from dovetail_opset import PACKAGE
from dovetail_opset.build import add
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.roles import present, schema_of
from dovetail_quantizers.planning.rules import cuts_off, fixed_range, kept_by

_SIX, _SIX_NEAR = 6.0, 1e-3
_ENDS = np.array([np.finfo(np.float32).min, np.finfo(np.float32).max])
_LOWEST = _ENDS[:1]
# Outputs of these are never negative; those of averages only if the input is not.
_NEVER_BELOW = ("ElementWiseAbs", "ElementWiseExp", "ElementWiseSquareRoot")
_AVERAGES = ("PoolAvg2d", "PoolAvg3d", "ReduceMean", "ReduceSum")


def clipper(graph: Graph, x: Tensor, encoded: EncodingDecision, ops: OpRegistry,
            given: Mapping[Tensor, EncodingDecision]) -> str | None:  # fmt: skip
    """Return the op that the grid of a tensor replaces; None if it clips nothing.

    Args:
        graph: The float graph that the tensor is in.
        x: The tensor that is quantized.
        encoded: Its encoding.
        ops: Finds ops.
        given: Encodings that were extracted before.
    """
    if graph.producer(x) is None or encoded.ends is None:
        return None
    minimum, maximum = encoded.ends
    if minimum != 0 or _is_never_below(graph, x, ops, given):
        return None
    # the largest value after a Relu6 is 6, except for rounding of the grid
    return "Relu6" if abs(maximum - _SIX) < _SIX_NEAR else "Relu"


def clips_as(node: Node, clip: str, ops: OpRegistry) -> bool:
    """Return whether a consumer of a tensor clips at least as much as a Relu or Relu6."""
    if not cuts_off(node, ops):
        return False
    low, high = bind_node(schema_of(node, ops), node).reference(_ENDS)
    return bool(low >= 0 and (clip == "Relu" or high <= _SIX + _SIX_NEAR))


def put_clip(graph: Graph, x: Tensor, op_type: str, y: Tensor | None) -> Tensor:
    """Insert a Relu or Relu6 after a tensor, and return its output.

    Args:
        graph: Changed.
        x: The input.
        op_type: Relu or Relu6.
        y: A tensor of the graph for the output; None creates one.
    """
    made = add(graph, op_type, [x], name=f"{x.name}.clipped", outputs=y, sources=())
    if y is None:
        # it has the name of the quantized tensor in the user's model
        made.source, made.source_perm = x.source, x.source_perm
    return made


def _is_never_below(
    graph: Graph, x: Tensor, ops: OpRegistry, given: Mapping[Tensor, EncodingDecision]
) -> bool:
    if x in given and (given[x].ends or (-1.0, 0.0))[0] >= 0:
        return True
    node = graph.producer(x)
    if node is None or node.package != PACKAGE.name:
        return False
    if node.op_type in _NEVER_BELOW or _gives_no_less(node, ops):
        return True
    moved = kept_by(node, ops, Sharing.SHARE)[0]
    if node.op_type in _AVERAGES:
        moved = tuple(t for _, t in present(node))[:1]
    # padding values and moved constants are not checked
    if not moved or node.op_type == "Pad" or any(t.kind.is_static for t in moved):
        return False
    return all(_is_never_below(graph, t, ops, given) for t in moved)


def _gives_no_less(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node's op has a fixed range, or clips, at zero or above."""
    known = fixed_range(node, ops)
    if known is not None:
        return known[0] >= 0
    if not cuts_off(node, ops):
        return False
    lowest = bind_node(schema_of(node, ops), node).reference(_LOWEST)
    return bool((lowest >= 0).all())
