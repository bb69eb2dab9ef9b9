"""Conversions to a grid and back that change nothing or were done before, removed for a plan.

Models that were quantized op by op have a pair of them around each move, and operators on stored
tensors dequantize one tensor for each reader. A level in float32, divided by the scale and rounded,
is itself: so whatever moves, the second pair returns its argument.
"""

from __future__ import annotations

from dovetail.ir import DType, Node, ScaleOffset, Spec, Tensor
from dovetail.ops import CheckedGraph, NodeView, OpSchema
from dovetail.runtime.plan import Rewriting
from dovetail_numpy.integer.grid import is_all_levels
from dovetail_numpy.integer.moves import MOVES
from dovetail_numpy.integer.tables import Grid, grid_key
from dovetail_opset import STANDARD

_FILLING = ("Im2Col", "Pad", "SpaceToBatch")  # with values that need not be on the grid
_MOVES = frozenset(MOVES).difference(_FILLING)
_LARGEST_SCALE = 1e32  # with it all levels are finite in float32


def without_repeated_conversions(graph: CheckedGraph, cast: OpSchema) -> CheckedGraph:
    """Return a graph without conversions whose results other tensors have.

    Args:
        graph: The graph; it is returned as it is if it has none.
        cast: The op that converts numbers between types.
    """
    replaced = _replaced(graph)
    if not replaced:
        return graph
    made = Rewriting(graph, cast)
    made.replaced = replaced
    dropped = {node for tensor in replaced if (node := graph.producer(tensor)) is not None}
    for view in graph.nodes:
        node = view.node
        if node not in dropped and not _is_unread(graph, node, dropped):
            made.add(node, [made.current(t) for t in node.inputs], node.outputs, view)
    return made.result()


def _replaced(graph: CheckedGraph) -> dict[Tensor, Tensor]:
    """Return dequantized tensors, and for each one the tensor that has its values."""
    grids: dict[Tensor, Grid] = {}  # of float32 tensors with levels alone
    first: dict[Tensor, Tensor] = {}  # dequantized, by what is stored
    replaced: dict[Tensor, Tensor] = {}
    for view in graph.nodes:
        node = view.node
        if not _is_dequantized(view):
            grids |= dict.fromkeys(node.outputs, grid) if (grid := _moved(view, grids)) else {}
            continue
        (stored,), (real,) = node.inputs, node.outputs
        if stored is None or stored.kind.is_updateable:
            continue
        grids[real] = grid_key(stored.spec)
        before = _source(graph, stored, grids) or first.setdefault(stored, real)
        if before is not real and graph.is_internal(real):
            replaced[real] = replaced.get(before, before)
    return replaced


def _is_dequantized(view: NodeView) -> bool:
    """Return whether a node dequantizes levels that float32 holds, to float32."""
    if (view.package, view.op_type) != (STANDARD, "Dequantize"):
        return False
    return view.outs[0].dtype is DType.FLOAT_32 and _has_levels(view.spec(0))


def _has_levels(spec: Spec) -> bool:
    encoding = spec.encoding
    is_finite = isinstance(encoding, ScaleOffset) and encoding.scale <= _LARGEST_SCALE
    return is_finite and is_all_levels(spec)


def _moved(view: NodeView, grids: dict[Tensor, Grid]) -> Grid | None:
    """Return the grid of what a node moves, None if it does more or its inputs have several."""
    if view.package != STANDARD or view.op_type not in _MOVES:
        return None
    moved = [t for t in view.node.inputs if t is not None and t.dtype is DType.FLOAT_32]
    found = {grids.get(tensor) for tensor in moved}
    return found.pop() if len(found) == 1 else None


def _source(graph: CheckedGraph, stored: Tensor, grids: dict[Tensor, Grid]) -> Tensor | None:
    """Return what was quantized to a tensor's grid if it was on the grid before."""
    node = graph.producer(stored)
    if node is None or (node.package, node.op_type) != (STANDARD, "Quantize"):
        return None
    (x,) = node.inputs
    return x if x is not None and grids.get(x) == grid_key(stored.spec) else None


def _is_unread(graph: CheckedGraph, node: Node, dropped: set[Node]) -> bool:
    """Return whether dropped nodes alone read a node's results."""
    readers = [reader for tensor in node.outputs for reader in graph.consumers(tensor)]
    return (
        bool(readers)
        and all(map(graph.is_internal, node.outputs))
        and all(reader in dropped for reader in readers)
    )
