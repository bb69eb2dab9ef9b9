"""Decisions: the encoding of each group, from what was given, known and observed."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.errors import Problem, QuantizationError
from dovetail_quantizers.planning.encoded import Encoded
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.rules import Range


def decide(plan: Plan, ranges: Mapping[str, Range]) -> dict[Group, Encoded]:
    """Gives the encoding of every group that needs one.

    Args:
        plan: The plan.
        ranges: Observed ranges by the name of the group's leader.

    Raises:
        QuantizationError: Ranges that no grid spans; all of them are listed.
    """
    found: dict[Group, Encoded] = {}
    problems: list[Problem] = []
    for group in plan.needed():
        if group in plan.given:
            found[group] = plan.given[group]
            continue
        observed = ranges.get(group.leader.name)
        least, greatest = _whole(observed, group.known_range())
        least, greatest = max(least, group.needed[0]), min(greatest, group.needed[1])
        try:
            grid = plan.recipe(group).grid(least, greatest)
        except QuantizationError as error:
            problems.append(Problem(error.message, f"tensor '{group.leader.source}'", error.hint))
            continue
        found[group] = Encoded(grid.dtype, grid.encoding, _reason(plan, group, observed), observed)
    if problems:
        raise QuantizationError(
            "some ranges cannot be quantized",
            where=f"graph '{plan.graph.name}'",
            problems=problems,
        )
    return found


def _whole(*ranges: Range | None) -> Range:
    known = [r for r in ranges if r is not None]
    if not known:
        return 0.0, 0.0
    return min(r[0] for r in known), max(r[1] for r in known)


def _reason(plan: Plan, group: Group, observed: Range | None) -> str:
    parts = []
    if observed is not None:
        parts.append(f"{plan.recipes.activation.estimator} of what was observed")
    parts += [f"always {low:g} to {high:g} ({where})" for (low, high), where in group.bounds]
    if observed is not None and (observed[0] < group.needed[0] or observed[1] > group.needed[1]):
        parts.append("cut where its readers tell nothing apart")
    if group.constants:
        parts.append("the values of constants")
    return ", ".join(parts) or "nothing reaches it"
