"""Moves from grid to grid as moves on one grid and requantizations, for a plan.

By definition each element is requantized alone, wherever it moves to. So the moves run by kernels
that copy stored integers, and a Reshape requantizes the smaller of two tensors. The largest element
of a window is also the largest after it is requantized.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from dovetail.ir import Blob, Node, Spec, Tensor
from dovetail.ir.storage import DeferredBlob
from dovetail.ops import CheckedGraph, NodeView, OpSchema, matched_node
from dovetail.runtime.plan import OnIntegers, Rewriting
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.grid import is_all_levels, is_fixed, is_tabular
from dovetail_numpy.integer.moves import MOVES, REQUANTIZING, SELECT, requantizer
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import Grid, grid_key
from dovetail_opset import STANDARD

# Choices of elements, beside which there is level 0.
_MAXIMA = ("PoolMax2d", "PoolMax3d")
_FILLING = ("Pad", "Im2Col", "SpaceToBatch")  # with values on the result's grid


def moves_on_one_grid(
    graph: CheckedGraph, reshape: OpSchema, on_integers: OnIntegers
) -> CheckedGraph:
    """Return a graph whose moves have inputs and results on one grid.

    Args:
        graph: The graph; it is returned as it is if that is so already.
        reshape: The op Reshape.
        on_integers: Returns whether a quantized node is computed on stored integers.
    """
    found = {view.node for view in graph.nodes if on_integers(view) and _is_between_grids(view)}
    if not found:
        return graph
    return _Moves(graph, reshape).run(found)


class _Moves(Rewriting):
    """A graph with moves on one grid while it is made."""

    def __init__(self, old: CheckedGraph, reshape: OpSchema) -> None:
        super().__init__(old, reshape)
        self._requantized: dict[tuple[Tensor, Grid], Tensor] = {}

    def run(self, moves: Collection[Node]) -> CheckedGraph:
        for view in self.old.nodes:
            node = view.node
            if node not in moves:
                self.add(node, node.inputs, node.outputs, view)
            elif _is_requantized_before(view):
                self._add_before(view)
            else:
                self._add_after(view)
        return self.result()

    def _add_before(self, view: NodeView) -> None:
        """Add a node whose inputs are requantized before."""
        node, target = view.node, view.outs[0]
        inputs = list(node.inputs)
        for i in _moved(view):
            tensor = node.inputs[i]
            if tensor is not None and grid_key(tensor.spec) != grid_key(target):
                inputs[i] = self._on_grid(tensor, target, node)
        self._add(view, inputs, node.outputs)

    def _add_after(self, view: NodeView) -> None:
        """Add a node whose result is requantized afterwards."""
        node, (index,), (out,) = view.node, _moved(view), view.node.outputs
        source = node.inputs[index]
        if source is None:
            raise AssertionError(f"{node.where} lacks its data")
        between = self.fresh(f"{out.name}.moved", out, source.dtype)
        between.encoding = source.encoding
        self._add(view, node.inputs, [between])
        self.cast(between, out, node.sources)

    def _add(
        self, view: NodeView, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
    ) -> None:
        node = view.node.with_tensors(inputs, outputs)
        found, faults = matched_node(node, view.definition[0])
        if found is None:
            raise AssertionError(f"{node.where} does not move within a grid: {faults}")
        self.add(node, inputs, outputs, found)

    def _on_grid(self, tensor: Tensor, target: Spec, node: Node) -> Tensor:
        """Return a tensor with another one's elements on the grid of a node's result."""
        key = tensor, grid_key(target)
        if key not in self._requantized:
            data = _requantized(tensor, target)
            found = self.fresh(f"{tensor.name}.requantized", tensor, target.dtype, data)
            found.encoding = target.encoding
            if data is None:
                self.cast(tensor, found, node.sources)
            self._requantized[key] = found
        return self._requantized[key]


def _requantized(tensor: Tensor, target: Spec) -> Blob | None:
    """Return the elements of a constant on another grid; None for other tensors."""
    if tensor.data is None:
        return None
    move = requantizer(tensor.spec, target)
    nbytes = math.prod(tensor.shape) * target.dtype.storage.itemsize
    return DeferredBlob(nbytes, lambda: move(tensor.stored()), tensor.data)


def _is_between_grids(view: NodeView) -> bool:
    """Return whether a node moves elements of grids that have tables to that of all its results."""
    tensors = [t for t in (*view.node.inputs, *view.node.outputs) if t is not None]
    if view.package != STANDARD or not (_is_move(view) or _is_choice(view)):
        return False
    if DEFINITIONS.of(view) is None or any(t.kind.is_updateable or 0 in t.shape for t in tensors):
        return False
    grids = [view.ins[i] for i in _moved(view)]
    specs = [spec for spec in (*grids, *view.outs) if spec is not None]
    is_one = len({grid_key(spec) for spec in view.outs}) == 1
    return is_one and len({*map(grid_key, specs)}) > 1 and all(map(_is_whole, specs))


def _is_whole(spec: Spec) -> bool:
    """Return whether a tensor has one scale and elements of whole bytes, of which tables exist."""
    return is_tabular(spec) and spec.dtype.bits == 8 * spec.dtype.storage.itemsize


def _is_move(view: NodeView) -> bool:
    return view.op_type == SELECT or (view.op_type in MOVES and view.op_type not in REQUANTIZING)


def _is_choice(view: NodeView) -> bool:
    """Return whether a node chooses elements, and level 0 is an integer of both grids."""
    is_known = view.op_type in _MAXIMA or (view.op_type == "Resize" and view.op.keeps)
    return is_known and all(map(_has_zero, (*view.ins, *view.outs)))


def _has_zero(spec: Spec | None) -> bool:
    """Return whether all stored integers of a tensor are levels, and one is level 0."""
    if spec is None or not is_all_levels(spec):
        return False
    _, zero, (low, high) = grid_of(spec)
    return low <= zero <= high


def _moved(view: NodeView) -> list[int]:
    """Return the inputs whose elements a node moves."""
    first = 1 if view.op_type == SELECT else 0
    return [i for i, spec in enumerate(view.ins) if i >= first and is_fixed(spec)]


def _is_requantized_before(view: NodeView) -> bool:
    """Return whether the inputs of a node are requantized, not its result."""
    ends = view.ins[_moved(view)[0]], view.outs[0]
    sizes = [math.prod(spec.shape) for spec in ends if spec is not None]
    is_single = len(_moved(view)) == 1 and len(view.outs) == 1
    return not is_single or view.op_type in (*_FILLING, SELECT) or sizes[0] < sizes[1]
