"""The encoding of each group, from given, known and observed ranges.

A mask of zeros and minus infinity needs a finite number for the latter: far enough for a masked sum
to reach the end of the sum's grid, whatever was masked. That end is well below every other sum, so
that a Softmax gives 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dovetail.errors import ConfigError, Problem, QuantizationError
from dovetail.ir import Encoding, Node, Tensor
from dovetail.ops import Range
from dovetail_opset import is_op
from dovetail_quantizers.grid import Grid
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Bound, Group
from dovetail_quantizers.planning.masks import far_of
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.rules import op_of
from dovetail_quantizers.planning.value_range import (
    EVERYTHING_COUNTS,
    Far,
    ValueRange,
    span,
    value_range_of,
    values_of,
)
from dovetail_quantizers.planning.whole_numbers import whole_grid, whole_groups

_NOTHING = ValueRange(0.0, 0.0)
# The range of a Sigmoid or Tanh is narrowed if that saves a bit or more.
_NARROWER = 2


def decide(plan: Plan, seen: Mapping[str, ValueRange]) -> dict[Group, EncodingDecision]:
    """Return the encoding of every group that needs one.

    Args:
        plan: The plan.
        seen: Observed ranges, by the name of the group's leader.

    Raises:
        QuantizationError: No grid spans some ranges; all of these are listed.
    """
    found: dict[Group, EncodingDecision] = {}
    problems: list[Problem] = []
    ranges = GroupRanges(plan, seen)
    is_whole = whole_groups(plan.graph, plan.ops)
    for group in plan.needed():
        if group in plan.given:
            found[group] = plan.given[group]
            continue
        minimum, maximum = ranges.range(group)
        exact = None
        try:
            recipe = plan.recipe(group)
            grid = recipe.grid(minimum, maximum)
            if recipe.steps is None:
                grid = prescribed(group, grid, minimum, maximum) or grid
                if not recipe.is_like_sdk and is_whole(group):
                    exact = whole_grid(grid, minimum, maximum)
        except (ConfigError, QuantizationError) as error:  # of its bitwidth, or of its range
            problems.append(error.as_problem(f"tensor '{group.leader.source}'"))
            continue
        observed = seen.get(group.leader.name)
        has_infinity = ranges.value_range(group).has_infinity
        if has_infinity:
            plan.note_infinities(group.leader)
        why = _reason(plan, group, observed, ranges)
        if exact is not None:
            grid, why = exact, f"{why}, with points at whole numbers"
        ends = None if observed is None else (observed.minimum, observed.maximum)
        found[group] = EncodingDecision(grid.dtype, grid.encoding, why, ends)
    if problems:
        raise QuantizationError(
            "some tensors cannot be quantized",
            where=f"graph '{plan.graph.name}'",
            problems=problems,
        )
    return found


def prescribed(group: Group, grid: Grid, minimum: float, maximum: float) -> Grid | None:
    """Return the grid that ops prescribe for a group; None if there is none, or it is too narrow.

    Such a grid ends one step below the maximum of the ops' results. Other values may be as far.

    Args:
        group: The group.
        grid: The grid of its range, which has the type.
        minimum: The smallest value of the group.
        maximum: The largest value.
    """
    found = {b.encodings[grid.dtype] for b in group.bounds if grid.dtype in b.encodings}
    if len(found) != 1 or grid.bitwidth < grid.dtype.bits:
        return None
    (encoding,) = found
    made = Grid(grid.dtype, grid.bitwidth, encoding.scale, encoding.offset)
    low, high = made.range
    return made if low <= minimum and maximum <= high + made.scale else None


def decide_result(
    plan: Plan,
    node: Node,
    tensor: Tensor,
    shared: EncodingDecision,
    read: EncodingDecision | None,
) -> EncodingDecision:
    """Return the decision on a node's result: the one that its group shares, or a prescribed one.

    Other tensors of the group, such as those of a Concat, may need another encoding than the one
    that the op prescribes for its result: then a Convert follows. So it does where a target wants
    one encoding for what is moved and its source, but the model gives two.

    Args:
        plan: The plan.
        node: The node.
        tensor: Its result.
        shared: The decision on the group of the result.
        read: The decision on the node's first input.
    """
    own: Encoding | None = op_of(node, plan.ops).result_encodings.get(shared.dtype)
    if own is None and read is not None and read.dtype is shared.dtype:
        own = read.encoding if tensor in plan.overrides.prescribed else None
    if own is None or node.outputs[0] is not tensor:
        return shared
    if tensor in plan.overrides.encodings:
        stays = tensor not in plan.overrides.prescribed
    else:
        recipe = plan.recipe(plan.groups[tensor])
        stays = recipe.steps is not None or recipe.bitwidth < shared.dtype.bits
    if stays or own == shared.encoding:
        return shared
    return replace(shared, encoding=own, why=f"prescribed by {node.op_type}")


def _reason(plan: Plan, group: Group, observed: ValueRange | None, ranges: GroupRanges) -> str:
    parts = []
    if observed is not None:
        parts.append(f"{plan.recipes.activation.estimator} of the observed values")
    for bound in group.bounds:
        low, high = ranges.bound(bound)
        how = "always" if (low, high) == bound.range else "by the range of the input"
        parts.append(f"{how} {low:g} to {high:g} ({bound.where})")
    if observed is not None and (observed[0] < group.needed[0] or observed[1] > group.needed[1]):
        parts.append("clipped where the ops that read it are flat")
    if group.floors:
        parts.append("clipped where a Softmax or an Exp gives 0")
    if group.constants:
        parts.append("values of constants")
    if ranges.value_range(group).has_infinity:
        parts.append("widened for values that represent infinity")
    return ", ".join(parts) or "no value reaches it"


class GroupRanges:
    """The ranges of a plan's groups.

    Args:
        plan: The plan.
        seen: Observed ranges, by the name of the group's leader.
    """

    def __init__(self, plan: Plan, seen: Mapping[str, ValueRange]) -> None:
        self._plan = plan
        self._seen = seen
        self._found: dict[Group, Range] = {}
        self._asked: set[Group] = set()

    def value_range(self, group: Group) -> ValueRange:
        """Return the values of a group: observed, constant, and known from ops."""
        parts = [self._seen.get(group.leader.name), group.known_range(self.bound)]
        known = [part for part in parts if part is not None]
        return known[0].joined(known[-1]) if known else _NOTHING

    def range(self, group: Group) -> Range:
        """Return the range that the grid of a group must span."""
        if group in self._plan.given:
            return self._plan.given[group].ends or (0.0, 0.0)
        if group not in self._found:
            value_range = self.value_range(group)
            self._found[group] = value_range.reaching(0.0)  # for cycles
            if value_range.has_infinity:
                across = [self._across(node, group) for node in self._readers(group)]
                self._found[group] = value_range.reaching(max(across, default=0.0))
        minimum, maximum = self._found[group]
        low, high = group.needed  # all values may be beyond one of them
        return min(max(minimum, low), high), max(min(maximum, high), low)

    def bound(self, bound: Bound) -> Range:
        """Return the range of an op's result: that which its input can give if that is far less.

        The input does not exceed its grid, so no result is clipped that the input does not clip.
        """
        x = None if bound.node is None else bound.node.inputs[0]
        group = None if x is None else self._plan.groups.get(x)
        if bound.node is None or group is None or group in self._asked:
            return bound.range
        self._asked.add(group)  # a group may depend on itself, by a Concat
        minimum, maximum = self.range(group)
        self._asked.remove(group)
        ends = np.array([min(minimum, 0.0), max(maximum, 0.0)], np.float32)  # every grid has 0
        low, high = op_of(bound.node, self._plan.ops).reference(ends).tolist()
        is_far_less = span((low, high)) * _NARROWER <= span(bound.range) and low < high
        return (low, high) if is_far_less else bound.range

    def _readers(self, group: Group) -> list[Node]:
        readers = {n: None for t in group.members for n in self._plan.graph.consumers(t)}
        return [node for node in readers if node not in group.inside]

    def _across(self, node: Node, group: Group) -> float:
        """Return the distance from zero that an infinity needs for the result to reach its end."""
        if is_op(node, "ElementWiseAdd", "ElementWiseSubtract"):
            groups = self._plan.groups
            others = [
                (t, far_of(node, i, groups) if _is_static(t) else EVERYTHING_COUNTS)
                for i, t in enumerate((*node.inputs, *node.outputs))
                if t is not None and groups.get(t) is not group
            ]
            return sum(self._span(t, far) for t, far in others)
        if is_op(node, "ElementWiseSelect"):
            return self._span(node.outputs[0])
        factors = _factors(node)
        if is_op(node, "ElementWiseMultiply") and factors is not None:
            return self._span(node.outputs[0]) / float(factors.min())
        divides = is_op(node, "ElementWiseDivide") and _is_static(node.inputs[1])
        if divides and factors is not None:
            return self._span(node.outputs[0]) * float(factors.max())
        return 0.0

    def _span(self, tensor: Tensor, far: Far = EVERYTHING_COUNTS) -> float:
        group = self._plan.groups.get(tensor)
        if group is not None:
            return span(self.range(group))
        return span(value_range_of(values_of(tensor), far)[:2]) if _is_static(tensor) else 0.0


def across(
    plan: Plan, decided: Mapping[Group, EncodingDecision], node: Node, constant: Tensor
) -> float:
    """Return the distance from zero that infinities of a node's constant input need."""
    others = (t for t in (*node.inputs, *node.outputs) if t is not None and t is not constant)
    groups = [plan.groups[t] for t in others if t in plan.groups]
    return sum(span(decided[group].ends or (0.0, 0.0)) for group in groups if group in decided)


def _factors(node: Node) -> np.ndarray | None:
    """Return the magnitudes of the constant that a node multiplies or divides by, without zeros."""
    statics = [t for t in node.inputs if t is not None and _is_static(t)]
    if len(statics) != 1:
        return None
    sizes = np.abs(values_of(statics[0]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return sizes if sizes.size else None


def _is_static(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.kind.is_static
