"""Masks: large numbers that are added to scores before a Softmax, or to exponents of an Exp.

A Softmax depends on the distance of each value from the maximum of its row. Values far enough below
give 0, however far they are, so the grid of the Softmax input does not represent them. The same
holds for an Exp and the maximum of its input, as one grid represents all its results. In the
operands of that sum, numbers far below all scores represent minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from dovetail.ir import Array, DType, Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail_opset import is_op
from dovetail_opset.ops.softmax import Softmax
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.rules import op_of
from dovetail_quantizers.planning.value_range import (
    EVERYTHING_COUNTS,
    HUGE,
    MARGIN,
    MASK,
    Far,
    RowFloor,
)

# Scores that only a maximum reads have no known size: only larger numbers are masks.
_LOWEST = Far(below=-1e8)
_SIGNS = {
    "ElementWiseAdd": (1, 1),
    "ElementWiseSelect": (0, 1, 1),
    "ElementWiseSubtract": (1, -1),
}


class Masks:
    """The tensors of a graph that only Softmaxes read, and the operands of their sums.

    Args:
        graph: The graph; not changed.
        ops: Finds its ops.
        groups: The groups of its tensors.
    """

    def __init__(self, graph: Graph, ops: OpRegistry, groups: Mapping[Tensor, Group]) -> None:
        self._graph = graph
        self._ops = ops
        self._groups = groups
        self._floors: dict[Group, dict[Tensor, RowFloor]] = {}
        self._tested: dict[Group, bool] = {}

    def find(self) -> None:
        """Set `floors` and `far` of the groups."""
        # last nodes first: a group asks those after it, so chains need no deep recursion
        written = [t for node in reversed(self._graph.nodes) for t in node.outputs]
        known = [self._groups[t] for t in written if t in self._groups]
        each = list(dict.fromkeys((*known, *self._groups.values())))
        for group in each:
            group.floors = self._floors_of(group)
            if not group.floors and group.needed[0] > -math.inf:  # where its readers are flat
                group.far = Far(below=-MASK)
            elif self._is_only_maximized(group):
                group.far = _LOWEST
        # last nodes first: the floors of a sum decide on its operands
        for node in reversed(self._graph.nodes):
            self._look_at_sum(node)
        for group in each:
            if self._is_only_tested(group):
                group.far = Far(-MASK, MASK)

    def _floors_of(self, group: Group) -> dict[Tensor, RowFloor]:
        """Return the values that count of a group's members; nothing if all of them do."""
        if group not in self._floors:
            self._floors[group] = {}  # of a group that a node both reads and writes, all count
            self._floors[group] = self._found(group)
        return self._floors[group]

    def _found(self, group: Group) -> dict[Tensor, RowFloor]:
        found: dict[Tensor, RowFloor] = {}
        if group.states or any(not tensor.kind.is_internal for tensor in group.members):
            return {}
        for tensor in group.members:
            for node in self._graph.consumers(tensor):
                if node in group.inside or self._chooses_within(node, group):
                    continue
                floor = self._floor(node, tensor)
                if floor is None or found.setdefault(tensor, floor) != floor:
                    return {}
        return found

    def _floor(self, node: Node, tensor: Tensor) -> RowFloor | None:
        """Return the values of an input that matter to a node; None if all do."""
        if is_op(node, "Softmax"):
            op = op_of(node, self._ops)
            assert isinstance(op, Softmax)
            return RowFloor(int(op.axis), MARGIN / op.beta) if op.beta > 0 else None
        if is_op(node, "ElementWiseExp"):
            return RowFloor(None, MARGIN)
        factor = _factor(node, tensor)
        out = node.outputs[0]
        if factor is None or out not in self._groups:
            return None
        after = self._floor_after(out)
        return None if after is None else RowFloor(after.axis, after.depth / factor)

    def _floor_after(self, tensor: Tensor) -> RowFloor | None:
        """Return the values of a result that count, also if reshapes keep its rows."""
        floors, last = self._floors_of(self._groups[tensor]), tensor
        while last not in floors:
            reader, *others = self._graph.consumers(last) or (None,)
            if reader is None or others or not is_op(reader, "Reshape"):
                return None
            last = reader.outputs[0]
        found, rank = floors[last], len(tensor.shape)
        if last is tensor or found.axis is None:
            return found
        keeps_rows = tensor.shape[-1:] == last.shape[-1:] and found.axis == len(last.shape) - 1
        return RowFloor(rank - 1, found.depth) if keeps_rows else None

    def _look_at_sum(self, node: Node) -> None:
        """Find the limits from which operands of a sum for Softmaxes represent infinity."""
        signs = mask_signs(node, self._groups)
        for tensor, sign in zip(node.inputs, signs, strict=False):
            if tensor is None or tensor not in self._groups or not sign:
                continue
            group = self._groups[tensor]
            if group.floors:  # they say more
                continue
            members = [t for t in group.members if not self._is_maximum(t, group)]
            readers = {n for t in members for n in self._graph.consumers(t)} - group.inside
            is_seen = any(self._graph.is_output(t) for t in members)
            adding = [n for n in readers if not (self._tests(n) or self._chooses_within(n, group))]
            if not is_seen and all(self._sign(n, group) == sign for n in adding):
                group.far = _operand_far(sign, self._groups[node.outputs[0]])

    def _is_only_tested(self, group: Group) -> bool:
        """Return whether all that is asked of a group is what differs from 0, or is infinite."""
        if group not in self._tested:
            self._tested[group] = False  # until it is known: a sum may read and write one group
            self._tested[group] = self._has_only_tests(group)
        return self._tested[group]

    def _has_only_tests(self, group: Group) -> bool:
        readers = {n for t in group.members for n in self._graph.consumers(t)} - group.inside
        if not readers or any(not tensor.kind.is_internal for tensor in group.members):
            return False
        return all(self._tests(node) or _asks_for_zero(node) for node in readers)

    def _tests(self, node: Node) -> bool:
        """Return whether a node only tests for infinity, or adds for a test of what differs from 0.

        Transformers add two masks to find the elements that only one of them hides.
        """
        if _asks_for_infinity(node):
            return True
        group = self._groups.get(node.outputs[0]) if is_op(node, "ElementWiseAdd") else None
        return group is not None and self._is_only_tested(group)

    def _chooses_within(self, node: Node, group: Group) -> bool:
        """Return whether a node chooses between values of a group and others, for the group.

        As where a mask hides one part of the scores: it is joined with the other parts.
        """
        return is_op(node, "ElementWiseSelect") and self._groups.get(node.outputs[0]) is group

    def _sign(self, node: Node, group: Group) -> int:
        """Return the sign with which a node adds a group for a Softmax; 0 if it does not.

        The maxima of rows do not count: no mask hides a whole row, so they are values. They are
        subtracted where a Softmax is written out.
        """
        signs = mask_signs(node, self._groups)
        mine = {
            sign
            for tensor, sign in zip(node.inputs, signs, strict=False)
            if tensor is not None
            and self._groups.get(tensor) is group
            and not self._is_maximum(tensor, group)
        }
        return mine.pop() if len(mine) == 1 else 0

    def _is_only_maximized(self, group: Group) -> bool:
        """Return whether nothing but the maxima of rows of a group, or their indices, is read."""
        members = [t for t in group.members if not self._is_maximum(t, group)]
        readers = {n for t in members for n in self._graph.consumers(t)}
        if group.floors or any(not tensor.kind.is_internal for tensor in members):
            return False
        others = [n for n in readers - group.inside if not self._chooses_within(n, group)]
        return any(is_op(node, "ReduceMax", "Argmax") for node in readers) and all(
            is_op(node, "Argmax") for node in others
        )

    def _is_maximum(self, tensor: Tensor, group: Group) -> bool:
        """Return whether a tensor holds maxima of rows of a group, perhaps in another shape."""
        node = self._graph.producer(tensor)
        while node is not None and node in group.inside and not is_op(node, "ReduceMax"):
            moved = [t for t in node.inputs if t is not None and self._groups.get(t) is group]
            node = self._graph.producer(moved[0]) if len(moved) == 1 else None
        return node is not None and node in group.inside


def _asks_for_infinity(node: Node) -> bool:
    """Return whether a node only tests for infinity, such as for rows that a mask hides."""
    return _compares(node, lambda values: np.abs(values) >= HUGE)


def _asks_for_zero(node: Node) -> bool:
    if is_op(node, "Cast"):
        return node.outputs[0].dtype is DType.BOOL_8
    return _compares(node, lambda values: values == 0)


def _compares(node: Node, with_values: Callable[[Array], Array]) -> bool:
    """Return whether a node asks whether elements are equal to a constant of some values."""
    statics = [t for t in node.inputs if t is not None and t.kind.is_static]
    return is_op(node, "ElementWiseEqual", "ElementWiseNotEqual") and any(
        bool(with_values(t.values()).all()) for t in statics
    )


def mask_signs(node: Node, groups: Mapping[Tensor, Group]) -> tuple[int, ...]:
    """Return the signs with which a node adds, chooses or scales its inputs for a Softmax.

    An input with which it does something else has 0. There are none if the result is for something
    else.
    """
    group = groups.get(node.outputs[0]) if node.outputs else None
    if group is None or not (group.floors or _hides(group.far)):
        return ()
    if is_op(node, *_SIGNS):
        return _SIGNS[node.op_type]
    return tuple(int(t is not None and _factor(node, t) is not None) for t in node.inputs)


def _factor(node: Node, tensor: Tensor) -> float | None:
    """Return the positive factor of a node, 1 if it clips masked values; None for none."""
    other = next((t for t in node.inputs if t is not tensor), None)
    if other is None or not other.kind.is_static or other.data is None:
        return None
    if tensor.shape != node.outputs[0].shape:
        return None
    values = np.asarray(other.values(), np.float64).ravel()
    if is_op(node, "ElementWiseMaximum") and values.size and values.max() <= -MASK:
        return 1.0
    if values.size != 1 or not 0 < values[0] < HUGE:
        return None
    if is_op(node, "ElementWiseMultiply"):
        return float(values[0])
    divides = is_op(node, "ElementWiseDivide") and node.inputs[0] is tensor
    return 1 / float(values[0]) if divides else None


def far_of(node: Node, i: int, groups: Mapping[Tensor, Group]) -> Far:
    """Return the limits from which numbers of a node's constant represent infinity."""
    signs = mask_signs(node, groups)
    if not signs or not signs[i]:
        return EVERYTHING_COUNTS
    return _operand_far(signs[i], groups[node.outputs[0]])


def _operand_far(sign: int, total: Group) -> Far:
    """Return the limits for what is added with a sign to a sum in which masks are hidden."""
    limit = MASK if total.floors else -total.far.below
    return Far(below=-limit) if sign > 0 else Far(above=limit)


def _hides(far: Far) -> bool:
    """Return whether low numbers alone represent an infinity that a mask may have given."""
    return far.below > EVERYTHING_COUNTS.below and far.above == EVERYTHING_COUNTS.above
