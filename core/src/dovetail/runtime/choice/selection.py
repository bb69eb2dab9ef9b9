"""Selection: the plan that times and the power preference choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.runtime.choice.options import TOLERANCES, Power
from dovetail.runtime.choice.plans import Plan
from dovetail.runtime.choice.trial import Entry
from dovetail.runtime.placement.report import Candidate


@dataclass(frozen=True, slots=True)
class Selection:
    """A chosen plan.

    Attributes:
        plan: The plan.
        reason: Reason for it.
        candidates: All plans, with their times or the reasons why they have none.
        is_measured: Whether several times were compared.
    """

    plan: Plan
    reason: str
    candidates: tuple[Candidate, ...]
    is_measured: bool


def ranked(plans: Sequence[Plan], power: Power) -> list[Plan]:
    """Return plans by the rules alone, the preferred one first.

    Plans on one candidate precede those in parts; with a preference for low power, the most
    efficient candidates come first. Otherwise the order stays.
    """
    return sorted(
        plans,
        key=lambda plan: (
            0.0 if power == "performance" else -plan.efficiency,
            len(plan.report.shares) > 1,
        ),
    )


def fastest(plans: Sequence[Plan], entries: Mapping[str, Entry], power: Power) -> Selection:
    """Return the fastest plan, or a more power-efficient one that is not much slower.

    Args:
        plans: The prepared plans, in the order of preference.
        entries: They in the trial, by name.
        power: The preference.
    """
    candidates = tuple(_candidate(entries[plan.name]) for plan in plans)
    times = {
        plan.name: seconds
        for plan in plans
        if (seconds := entries[plan.name].seconds) is not None and not entries[plan.name].failed
    }
    if not times:
        first = ranked(plans, power)[0]
        why = "the only candidate that is left"
        if len(plans) > 1:
            why = "chosen by the rules, since no candidate ran on the generated inputs"
        return Selection(first, why, candidates, is_measured=False)
    best = min(times.values())
    near = [p for p in plans if times.get(p.name, float("inf")) <= best * TOLERANCES[power]]
    if power == "performance":
        chosen, why = near[0], f"the fastest of {len(times)} measured"
    else:
        chosen = min(near, key=lambda plan: (-plan.efficiency, times[plan.name]))
        why = f"the most power-efficient within {TOLERANCES[power]:g} times the fastest one's time"
    return Selection(chosen, why, candidates, is_measured=len(times) > 1)


def _candidate(entry: Entry) -> Candidate:
    seconds = entry.seconds
    return Candidate(entry.name, None if seconds is None else 1e3 * seconds, entry.failed)
