"""The choice of a plan for one graph: by an earlier trial, a trial or the rules alone."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from dovetail.errors import BackendError, DovetailError
from dovetail.ops import CheckedGraph
from dovetail.runtime.choice.candidates import reason_of
from dovetail.runtime.choice.decisions import Decisions
from dovetail.runtime.choice.plans import Plan, find_plans, problems_of
from dovetail.runtime.choice.selection import Selection, Times, fastest, ranked
from dovetail.runtime.choice.trial import Entry, measure
from dovetail.runtime.contract import PrepareRequest
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.placement.members import close_all
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.placement.report import Candidate, Choice

if TYPE_CHECKING:  # they choose
    from dovetail.runtime.choice.backend import AutoBackend
    from dovetail.runtime.choice.context import AutoContext

log = logging.getLogger("dovetail.auto")


class Choosing:
    """The choice for one graph.

    Args:
        context: Prepares plans.
        backend: The backend.
        graph: The graph.
        request: How to prepare it.
    """

    def __init__(
        self,
        context: AutoContext,
        backend: AutoBackend,
        graph: CheckedGraph,
        request: PrepareRequest,
    ) -> None:
        self._context = context
        self._backend = backend
        self._options = backend.options
        self._graph = graph
        self._request = request
        config = backend.graph_config(request.config)
        device = context.device
        plans = find_plans(graph, backend.members, backend.options, device, config)
        self._possible = plans.possible
        self._excluded = [*backend.unusable, *plans.excluded]
        self._decisions = Decisions.of(backend, graph, device, config)
        self._trial_graph = _without_state(graph)

    def result(self) -> HeteroPrepared:
        """Return the graph, prepared as the choice says, with the reasons in its report."""
        if not self._possible:
            raise BackendError(
                "the rules of `auto` exclude all candidates",
                code="CHOICE_CHECK_FAILED",
                where=self._graph.where,
                hint="relax `precision` or `forbid` of `[auto]`, or name other candidates",
                problems=problems_of(self._excluded),
            )
        prepared, choice = self._remembered() or self._decided()
        for line in choice.lines():
            log.info("%s: %s", self._graph.where, line)
        prepared.placement = msgspec.structs.replace(prepared.placement, choice=choice)
        return prepared

    def _remembered(self) -> tuple[HeteroPrepared, Choice] | None:
        """Return the graph as an earlier trial decides; None without one, or if that fails now."""
        if not self._is_measured:
            return None
        times = self._decisions.read(self._possible)
        if times is None:
            return None
        selection = fastest(self._possible, times, self._options.power)
        tried = [times.candidate(plan.name) for plan in self._possible]
        prepared = self._prepared(selection.plan)
        if prepared is None:
            return None
        return prepared, selection.choice([*tried, *self._excluded], cached=True)

    @property
    def _is_measured(self) -> bool:
        return self._options.measure and len(self._possible) > 1

    def _decided(self) -> tuple[HeteroPrepared, Choice]:
        return self._by_trial() if self._is_measured else self._by_rules()

    def _by_rules(self) -> tuple[HeteroPrepared, Choice]:
        """Return the graph on the first plan, by the rules, that can be prepared."""
        order = ranked(self._possible, self._options.power)
        for i, plan in enumerate(order):
            prepared = self._prepared(plan)
            if prepared is not None:
                selection = Selection(plan, self._sole_reason(len(order) - i))
                rest = [Candidate(other.name) for other in order[i:]]
                return prepared, selection.choice([*rest, *self._excluded])
        raise self._none_left()

    def _sole_reason(self, count: int) -> str:
        """Return the reason for the first of some plans, without times."""
        if count > 1:
            return "chosen by the rules, without a measurement"
        return "the only candidate" + (" that is left" if self._excluded else "")

    def _by_trial(self) -> tuple[HeteroPrepared, Choice]:
        """Return the graph on the plan that a trial chooses; close the others."""
        entries: dict[str, Entry] = {}
        events: dict[str, Recorder | None] = {}
        plans = list(self._possible)
        try:
            for plan in plans:
                record = self._own_recorder()
                prepared = self._prepared(plan, record, self._trial_graph)
                if prepared is not None:
                    can_stop = all(m.capabilities.cancel for m in plan.members)
                    entries[plan.name] = Entry(plan.name, prepared, can_stop)
                    events[plan.name] = record
            made = [plan for plan in plans if plan.name in entries]
            selection, times = self._selected(made, entries, len(plans))
        except BaseException:
            close_all((name, entry.prepared) for name, entry in entries.items())
            raise
        choice = selection.choice([*map(times.candidate, entries), *self._excluded])
        if self._trial_graph is not self._graph:
            close_all((name, entry.prepared) for name, entry in entries.items())
            return self._context.prepare_plan(self._graph, selection.plan, self._request), choice
        chosen = entries.pop(selection.plan.name)
        close_all((name, entry.prepared) for name, entry in entries.items())
        self._keep_events(events[chosen.name])
        return chosen.prepared, choice

    def _selected(
        self, plans: Sequence[Plan], entries: Mapping[str, Entry], count: int
    ) -> tuple[Selection, Times]:
        """Measure prepared plans; return the chosen one and the times, which are kept.

        Args:
            plans: The prepared plans.
            entries: They in the trial, by name.
            count: Number of all plans, prepared or not.

        Raises:
            BackendError: There are none, or the preparation was ended.
        """
        if not plans:
            raise self._none_left()
        if len(plans) == 1:
            return Selection(plans[0], self._sole_reason(1)), Times({}, {})
        check = self._request.control.check
        found = measure([entries[p.name] for p in plans], self._options.trial_seconds, check)
        times = Times(
            {name: 1e3 * seconds for name, seconds in found.items()},
            {e.name: e.failed for e in entries.values() if e.failed},
        )
        # a candidate that failed may be there again the next time
        if len(plans) == count and all(not e.failed or e.is_stopped for e in entries.values()):
            self._decisions.write(times)
        return fastest(plans, times, self._options.power), times

    def _prepared(
        self, plan: Plan, record: Recorder | None = None, graph: CheckedGraph | None = None
    ) -> HeteroPrepared | None:
        """Return a prepared plan; None if it fails, which is noted.

        Args:
            plan: The plan.
            record: Receives measurements, instead of the request's.
            graph: The graph with ops of the trial's own.
        """
        request = self._request
        if record is not None:
            request = replace(request, record=record)
        request.control.check()
        try:
            return self._context.prepare_plan(graph or self._graph, plan, request)
        except DovetailError as error:
            request.control.check()
            log.warning("%s: candidate '%s' failed: %s", self._graph.where, plan.name, error)
            reason = f"failed to prepare the graph: {reason_of(error)}"
            self._excluded.append(Candidate(plan.name, excluded=reason))
            self._possible = tuple(other for other in self._possible if other is not plan)
            return None

    def _none_left(self) -> BackendError:
        return BackendError(
            "no candidate can run the graph",
            code="GRAPH_ERROR_FINALIZE_FAILED",
            where=self._graph.where,
            hint="name other candidates, or repair those that failed",
            problems=problems_of(self._excluded),
        )

    def _own_recorder(self) -> Recorder | None:
        """Return a recorder of one preparation: only the chosen one's events are kept."""
        record = self._request.record
        return None if record is None else Recorder(record.level, has_nodes=record.has_nodes)

    def _keep_events(self, own: Recorder | None) -> None:
        record = self._request.record
        if record is not None and own is not None:
            record.events += own.events


def _without_state(graph: CheckedGraph) -> CheckedGraph:
    """Return a graph whose runs do not change the state of a graph's ops; itself if none has any.

    Ops that keep a state from run to run, or draw random numbers, are copied.
    """
    nodes = tuple(
        view
        if view.schema is not None and view.schema.op.is_pure
        else replace(view, op=copy.deepcopy(view.op))
        for view in graph.nodes
    )
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return replace(graph, nodes=nodes)
