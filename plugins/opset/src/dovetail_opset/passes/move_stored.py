"""Moves and ranks of stored values with their encoding instead of as plain integers."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Graph, Node, Scalar, ScaleOffset, Spec, Tensor, add_like
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.passes._rewrite import first_input, is_inner, sole_producer

_BORDER = "pad_constant_value"
# Ops that move the elements of their first input, or take the largest ones.
_MOVES = (
    *("DepthToSpace", "Gather", "GatherElements", "GatherNd", "Pad", "PoolMax2d", "Reshape"),
    *("ResizeNearestNeighbor", "SpaceToDepth", "StridedSlice", "Tile", "Transpose"),
)
# Ops for which only the order of the elements matters.
_RANKS = ("Argmax", "Argmin")


@dataclass(frozen=True, slots=True)
class MoveStored:
    """Exchange a Cast between stored values and integers with the moves on the integers' side.

    What only ranks the integers reads the stored values. Every backend transposes fixed-point
    tensors, but few do integers of 8 or 16 bits, such as the images that a quantized model takes as
    bytes.
    """

    name: str = "move-stored"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found = list(nodes_of(graph, "Cast"))
        return any([self._run_on(graph, cast) for cast in found])

    @staticmethod
    def _run_on(graph: Graph, cast: Node) -> bool:
        changed = _move_before(graph, cast) or _move_after(graph, cast)
        return _rank_stored(graph, cast) or changed


def _move_before(graph: Graph, cast: Node) -> bool:
    """Move stored values before they become integers."""
    changed = False
    while (move := _only_move(graph, cast)) is not None:
        x, integers, y = first_input(cast), cast.outputs[0], move.outputs[0]
        moved = add_like(graph, y, f"{y.name}.stored", Spec(x.dtype, y.shape, x.encoding))
        _give_real_border(move, x)
        graph.set_inputs(move, [x, *move.inputs[1:]])
        graph.set_outputs(move, [moved])
        graph.set_inputs(cast, [moved])
        graph.set_outputs(cast, [y])
        graph.remove_tensor(integers)
        changed = True
    return changed


def _only_move(graph: Graph, cast: Node) -> Node | None:
    """Return the only reader of a Cast's integers if it moves them."""
    integers = cast.outputs[0]
    if not _is_stored(first_input(cast), integers) or not is_inner(integers):
        return None
    reader = graph.only_reader(integers)
    if reader is None or reader.inputs[0] is not integers or integers in reader.inputs[1:]:
        return None
    return reader if _moves(reader, integers) else None


def _move_after(graph: Graph, cast: Node) -> bool:
    """Move integers after they have become stored values."""
    changed = False
    while (move := _move_of_input(graph, cast)) is not None:
        x, integers, y = first_input(move), first_input(cast), cast.outputs[0]
        stored = add_like(graph, x, f"{x.name}.stored", Spec(y.dtype, x.shape, y.encoding))
        _give_real_border(move, y)
        graph.set_inputs(cast, [x])
        graph.set_outputs(cast, [stored])
        graph.set_inputs(move, [stored, *move.inputs[1:]])
        graph.set_outputs(move, [y])
        graph.remove_tensor(integers)
        changed = True
    return changed


def _move_of_input(graph: Graph, cast: Node) -> Node | None:
    """Return the node that moves integers for a Cast alone."""
    integers = first_input(cast)
    if not _is_stored(cast.outputs[0], integers) or not is_inner(integers):
        return None
    maker = sole_producer(graph, integers)
    return maker if maker is not None and _moves(maker, integers) else None


def _moves(node: Node, integers: Tensor) -> bool:
    """Return whether a node moves integers; the border that a Pad adds must be one of them."""
    low, high = integers.dtype.stored_range()
    return is_op(node, *_MOVES) and low <= _border(node) <= high


def _rank_stored(graph: Graph, cast: Node) -> bool:
    """Rank stored values, whose order is that of their integers."""
    x, integers = first_input(cast), cast.outputs[0]
    if not _is_stored(x, integers):
        return False
    found = [node for node in graph.consumers(integers) if is_op(node, *_RANKS)]
    for node in found:
        graph.set_inputs(node, [x])
    return bool(found)


def _border(node: Node) -> float:
    given = node.params.get(_BORDER)
    return float(given.value) if isinstance(given, Scalar) else 0.0


def _give_real_border(move: Node, stored: Tensor) -> None:
    """Replace the integer of the border that a Pad adds by the number that it represents."""
    if is_op(move, "Pad") and isinstance(stored.encoding, ScaleOffset):
        real = (_border(move) + stored.encoding.offset) * stored.encoding.scale
        move.params[_BORDER] = Scalar(DType.FLOAT_32, real)


def _is_stored(x: Tensor, integers: Tensor) -> bool:
    """Return whether one tensor has the bits of the other, with a single scale."""
    is_fixed = x.dtype.is_fixed_point and isinstance(x.encoding, ScaleOffset)
    return is_fixed and integers.dtype.is_int and x.dtype.bits == integers.dtype.bits
