"""Selection: the plan that times and the power preference choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dovetail.runtime.choice.options import TOLERANCES, Power
from dovetail.runtime.choice.plans import Plan
from dovetail.runtime.placement.report import Candidate, Choice


class Times(msgspec.Struct, frozen=True):
    """Results of a trial.

    Attributes:
        ms: Median milliseconds of an inference, by the name of the plan.
        failed: Reasons why the other plans were not measured.
    """

    ms: dict[str, float]
    failed: dict[str, str]

    def candidate(self, name: str) -> Candidate:
        """Return a plan as a candidate in the report."""
        return Candidate(name, self.ms.get(name), self.failed.get(name, ""))


@dataclass(frozen=True, slots=True)
class Selection:
    """A chosen plan, with the reason."""

    plan: Plan
    reason: str

    def choice(self, candidates: Sequence[Candidate], *, cached: bool = False) -> Choice:
        """Return it for the report.

        Args:
            candidates: All candidates.
            cached: Whether the times are of an earlier trial.
        """
        return Choice(self.plan.name, self.reason, tuple(candidates), cached)


def ranked(plans: Sequence[Plan], power: Power) -> list[Plan]:
    """Return plans by the rules alone, the preferred one first.

    Plans on one candidate precede those in parts. With a preference for low power, the most
    efficient candidates come before that; otherwise the order stays.
    """
    return sorted(
        plans,
        key=lambda plan: (
            0.0 if power == "performance" else -plan.efficiency,
            len(plan.report.shares) > 1,
        ),
    )


def fastest(plans: Sequence[Plan], times: Times, power: Power) -> Selection:
    """Return the fastest plan, or a more power-efficient one that is not much slower.

    Args:
        plans: The plans that were tried, in the order of preference.
        times: Their times.
        power: The preference.
    """
    measured = [plan for plan in plans if plan.name in times.ms]
    if not measured:
        why = "chosen by the rules, since no candidate ran on the generated inputs"
        return Selection(ranked(plans, power)[0], why)
    limit = TOLERANCES[power] * min(times.ms[plan.name] for plan in measured)
    near = [plan for plan in measured if times.ms[plan.name] <= limit]
    if power == "performance":
        return Selection(near[0], f"the fastest of {len(measured)} measured")
    chosen = min(near, key=lambda plan: (-plan.efficiency, times.ms[plan.name]))
    why = f"the most power-efficient within {TOLERANCES[power]:g} times the fastest one's time"
    return Selection(chosen, why)
