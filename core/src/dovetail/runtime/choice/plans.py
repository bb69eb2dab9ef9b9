"""Plans: the ways to run a graph on candidates, each candidate once as the first choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dovetail.errors import BackendError, Problem
from dovetail.ops import CheckedGraph
from dovetail.runtime.choice.candidates import reason_of, restricted
from dovetail.runtime.choice.options import AutoOptions
from dovetail.runtime.names import HETERO
from dovetail.runtime.placement.members import Member
from dovetail.runtime.placement.options import HeteroDeviceConfig, HeteroGraphConfig
from dovetail.runtime.placement.placing import PlacedPart, place
from dovetail.runtime.placement.report import Candidate, Placement


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to run a graph.

    Attributes:
        name: The backend that would run it so: `cpu`, or `hetero:gpu,cpu`.
        members: The candidates, those that run parts first.
        parts: The parts, whose members are indices of these.
        report: The report on them.
    """

    name: str
    members: tuple[Member, ...]
    parts: tuple[PlacedPart, ...]
    report: Placement

    @property
    def efficiency(self) -> float:
        """Power efficiency of the candidate that runs most of the graph."""
        return self.members[0].capabilities.power_efficiency

    @property
    def fraction(self) -> float:
        """Fraction on the first candidate, of nodes or MACs, whichever is smaller."""
        first = self.report.shares[0]
        totals = [
            (first.nodes, sum(share.nodes for share in self.report.shares)),
            (first.macs, sum(share.macs for share in self.report.shares)),
        ]
        return min((own / total for own, total in totals if total), default=1.0)


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a graph.

    Attributes:
        possible: Those that the rules allow, in the order of preference.
        excluded: Candidates without such a plan, with the reasons.
    """

    possible: tuple[Plan, ...]
    excluded: tuple[Candidate, ...]


def find_plans(
    graph: CheckedGraph,
    members: Sequence[Member],
    options: AutoOptions,
    device: HeteroDeviceConfig,
    config: HeteroGraphConfig,
) -> Plans:
    """Return the plans of a graph that the rules allow.

    Args:
        graph: The graph.
        members: The candidates, in the order of preference.
        options: The options of `auto`.
        device: Settings of the device.
        config: Settings of the graph.

    Raises:
        ConfigError: Pins name nodes that the graph does not have; all are listed.
    """
    return _Rules(graph, options, device, config).plans(members)


class _Rules:
    """The rules for one graph."""

    def __init__(
        self,
        graph: CheckedGraph,
        options: AutoOptions,
        device: HeteroDeviceConfig,
        config: HeteroGraphConfig,
    ) -> None:
        self._graph = graph
        self._options = options
        self._configs = device, config
        # parts with too few nodes on the first candidate are compared with the others below
        self._placing = msgspec.structs.replace(options, min_fraction=0.0)

    def plans(self, members: Sequence[Member]) -> Plans:
        """Return the plans; see `find_plans`."""
        members = [restricted(member, self._configs[1], self._options) for member in members]
        found: list[Plan] = []
        excluded: list[Candidate] = []
        for first in members:
            order = (first, *(member for member in members if member is not first))
            plan = self._plan(order)
            if isinstance(plan, Plan):
                found.append(plan)
            else:
                excluded.append(plan)
        return self._without_small(found, excluded)

    def _plan(self, order: tuple[Member, ...]) -> Plan | Candidate:
        """Return the plan with an order of candidates, or the reason why there is none."""
        device, config = self._configs
        try:
            parts, report = place(self._graph, order, self._placing, device, config)
        except BackendError as error:
            return Candidate(order[0].name, excluded=reason_of(error))
        if unsupported := next(self._unsupported(order, parts), ""):
            return Candidate(order[0].name, excluded=unsupported)
        if self._graph.nodes and not report.shares[0].nodes:
            why = f"runs no node: {report.moved[0].node}: {report.moved[0].reason}"
            return Candidate(order[0].name, excluded=why)
        used = [(m, share) for m, share in zip(order, report.shares, strict=True) if share.parts]
        names = [member.name for member, _ in used]
        name = names[0] if len(names) == 1 else f"{HETERO}:{','.join(names)}"
        shares = tuple(share for _, share in used)
        return Plan(name, order, parts, msgspec.structs.replace(report, shares=shares))

    def _unsupported(self, order: Sequence[Member], parts: Sequence[PlacedPart]) -> Iterator[str]:
        """Yield the nodes that no candidate of an order supports, or may run with its precision."""
        for part in parts:
            for view in part.nodes:
                verdict = order[part.member].validate(view, *self._configs)
                if not verdict.ok:
                    yield f"{view.node.where}: {verdict}"

    def _without_small(self, found: Sequence[Plan], excluded: list[Candidate]) -> Plans:
        """Leave out plans whose first candidate runs too little, unless there are no others."""
        needed, seen, kept = self._options.min_fraction, set[tuple[object, ...]](), []
        has_others = any(plan.fraction >= needed for plan in found)
        for plan in found:
            key = tuple(
                (plan.members[p.member].name, tuple(v.node.name for v in p.nodes))
                for p in plan.parts
            )
            first = plan.members[0].name
            if has_others and plan.fraction < needed:
                why = f"{first} would run {plan.fraction:.0%}; `min_fraction` is {needed:.0%}"
                if plan.report.moved:
                    why += f" ({plan.report.moved[0].node}: {plan.report.moved[0].reason})"
                excluded.append(Candidate(plan.name, excluded=why))
            elif key not in seen:  # two orders may have the same parts
                seen.add(key)
                kept.append(plan)
        return Plans(tuple(kept), tuple(excluded))


def problems_of(candidates: Sequence[Candidate]) -> list[Problem]:
    """Return a problem for each excluded candidate."""
    return [Problem(each.excluded, f"candidate {each.backend}") for each in candidates]
