"""Relu and Relu6 that a grid replaced, restored when the quantization is extracted.

A grid that starts at 0 clips like a Relu, so quantizing tools remove the Relu before it. Without
the grid the network would compute something else.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Sharing
from dovetail_opset import is_op
from dovetail_opset.build import add
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.roles import present
from dovetail_quantizers.planning.rules import kept_by, op_of

_SIX, _SIX_NEAR = 6.0, 1e-3
# Outputs of these are never negative if the input is not.
_AVERAGES = ("PoolAvg2d", "PoolAvg3d", "ReduceMean", "ReduceSum")


def clipper(
    graph: Graph,
    x: Tensor,
    encoded: EncodingDecision,
    ops: OpRegistry,
    clipped: Mapping[Tensor, EncodingDecision],
) -> str | None:
    """Return the op that the grid of a tensor replaces; None if it clips nothing.

    Args:
        graph: The float graph that the tensor is in.
        x: The tensor that is quantized.
        encoded: Its encoding.
        ops: Finds ops.
        clipped: Encodings of tensors that stay within the grid.
    """
    if graph.producer(x) is None or encoded.ends is None:
        return None
    minimum, maximum = encoded.ends
    if minimum != 0 or _is_never_below(graph, x, ops, clipped):
        return None
    # the largest value after a Relu6 is 6, except for rounding of the grid
    return "Relu6" if abs(maximum - _SIX) < _SIX_NEAR else "Relu"


def clips_as(node: Node, clip: str, ops: OpRegistry) -> bool:
    """Return whether a consumer of a tensor clips at least as much as a Relu or Relu6."""
    op = op_of(node, ops)
    low, high = op.value_range
    return op.clips and low >= 0 and (clip == "Relu" or high <= _SIX + _SIX_NEAR)


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
    graph: Graph, x: Tensor, ops: OpRegistry, clipped: Mapping[Tensor, EncodingDecision]
) -> bool:
    if x in clipped and (clipped[x].ends or (-1.0, 0.0))[0] >= 0:
        return True
    node = graph.producer(x)
    if node is None:
        return False
    op = op_of(node, ops)
    if op.value_range[0] >= 0:
        return True
    moved = kept_by(node, ops, Sharing.SHARE)[0]
    if is_op(node, *_AVERAGES):
        moved = tuple(t for _, t in present(node))[:1]
    # added values and moved constants are not checked
    if not moved or op.added_range is not None or any(t.kind.is_static for t in moved):
        return False
    return all(_is_never_below(graph, t, ops, clipped) for t in moved)
