"""Relu and Relu6 that quantizing stood for, put back where it is taken out.

A grid from zero upwards clips like a Relu, so tools that quantize leave the Relu out in front of
it. Without the grid the network would be another one.
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
# Results of these are never below zero; those of the averages are not if what they read is not.
_NEVER_BELOW = ("ElementWiseAbs", "ElementWiseExp", "ElementWiseSquareRoot")
_AVERAGES = ("PoolAvg2d", "PoolAvg3d", "ReduceMean", "ReduceSum")


def clipper(graph: Graph, x: Tensor, encoded: EncodingDecision, ops: OpRegistry,
            given: Mapping[Tensor, EncodingDecision]) -> str | None:  # fmt: skip
    """Return the op that a grid behind a tensor stands for; None if it clips nothing.

    Args:
        graph: The float graph that the tensor is in.
        x: What is quantized.
        encoded: What it is quantized to.
        ops: Finds ops.
        given: Encodings that were taken out of the graph before.
    """
    if graph.producer(x) is None or encoded.ends is None:
        return None
    minimum, maximum = encoded.ends
    if minimum != 0 or _is_never_below(graph, x, ops, given):
        return None
    # the greatest value that was seen behind a Relu6 is 6, but for the grid's rounding
    return "Relu6" if abs(maximum - _SIX) < _SIX_NEAR else "Relu"


def clips_as(node: Node, clip: str, ops: OpRegistry) -> bool:
    """Return whether a node that reads a tensor clips it itself, at least as a Relu or Relu6 would."""
    if not cuts_off(node, ops):
        return False
    low, high = bind_node(schema_of(node, ops), node).reference(_ENDS)
    return bool(low >= 0 and (clip == "Relu" or high <= _SIX + _SIX_NEAR))


def put_clip(graph: Graph, x: Tensor, op_type: str, y: Tensor | None) -> Tensor:
    """Put a Relu or Relu6 behind a tensor, and return its result.

    Args:
        graph: Changed.
        x: What it is to read.
        op_type: Relu or Relu6.
        y: A tensor of the graph that is to be its result; None makes one.
    """
    made = add(graph, op_type, [x], name=f"{x.name}.clipped", outputs=y, sources=())
    if y is None:
        # it goes by the name that the user's model has for what is quantized
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
    # what a Pad adds, and constants that are moved, are not looked at
    if not moved or node.op_type == "Pad" or any(t.kind.is_static for t in moved):
        return False
    return all(_is_never_below(graph, t, ops, given) for t in moved)


def _gives_no_less(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node's op has a range of its own, or clips, at zero or above."""
    known = fixed_range(node, ops)
    if known is not None:
        return known[0] >= 0
    if not cuts_off(node, ops):
        return False
    lowest = bind_node(schema_of(node, ops), node).reference(_LOWEST)
    return bool((lowest >= 0).all())
