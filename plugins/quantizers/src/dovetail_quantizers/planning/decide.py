"""The encoding of each group, from given, known and observed ranges."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.errors import Problem, QuantizationError
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.group_ranges import GroupRanges
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.value_range import ValueRange


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
    reach = GroupRanges(plan, seen)
    for group in plan.needed():
        if group in plan.given:
            found[group] = plan.given[group]
            continue
        minimum, maximum = reach.range(group)
        try:
            grid = plan.recipe(group).grid(minimum, maximum)
        except QuantizationError as error:
            problems.append(Problem(error.message, f"tensor '{group.leader.source}'", error.hint))
            continue
        observed = seen.get(group.leader.name)
        has_infinity = reach.extent(group).has_infinity
        if has_infinity:
            plan.note_infinities(group.leader)
        why = _reason(plan, group, observed, has_infinity)
        ends = None if observed is None else (observed.minimum, observed.maximum)
        found[group] = EncodingDecision(grid.dtype, grid.encoding, why, ends)
    if problems:
        raise QuantizationError(
            "some ranges cannot be quantized",
            where=f"graph '{plan.graph.name}'",
            problems=problems,
        )
    return found


def _reason(plan: Plan, group: Group, observed: ValueRange | None, has_infinity: bool) -> str:
    parts = []
    if observed is not None:
        parts.append(f"{plan.recipes.activation.estimator} of the observed values")
    parts += [f"always {low:g} to {high:g} ({where})" for (low, high), where in group.bounds]
    if observed is not None and (observed[0] < group.needed[0] or observed[1] > group.needed[1]):
        parts.append("clipped where the ops that read it are flat")
    if group.floors:
        parts.append("clipped where a Softmax gives 0")
    if group.constants:
        parts.append("values of constants")
    if has_infinity:
        parts.append("widened for values that represent infinity")
    return ", ".join(parts) or "no value reaches it"
