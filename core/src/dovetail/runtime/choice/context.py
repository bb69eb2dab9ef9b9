"""Contexts of `auto`: those of the candidates that run graphs, and the choice for each graph."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dovetail.errors import BackendError, DovetailError
from dovetail.ops import CheckedGraph
from dovetail.runtime.choice.candidates import reason_of
from dovetail.runtime.choice.decisions import Decisions
from dovetail.runtime.choice.plans import Plan, find_plans, problems_of
from dovetail.runtime.choice.selection import Selection, Times, fastest, ranked
from dovetail.runtime.choice.trial import Entry, measure
from dovetail.runtime.contract import (
    Fingerprint,
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.measurements import Recorder
from dovetail.runtime.names import HETERO
from dovetail.runtime.placement.context import HeteroContext
from dovetail.runtime.placement.images import damaged
from dovetail.runtime.placement.members import Member, close_all
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.placement.report import Candidate, Choice

if TYPE_CHECKING:  # it opens contexts
    from dovetail.runtime.choice.backend import AutoBackend

log = logging.getLogger("dovetail.auto")

# Trials of two threads would disturb each other.
_CHOOSING = threading.Lock()
_WAIT_S = 0.05
_FACTS = "candidates"  # the blob of an image with the fingerprint of those that it is for


class AutoContext(HeteroContext):
    """Contexts of candidates, opened when a graph is prepared on them.

    Those of candidates that run no graph are closed after each choice. Arguments are as for
    `HeteroContext`.
    """

    _backend: AutoBackend

    def open_members(self) -> None:
        """Open none: a candidate that fails is skipped when a graph is prepared."""
        self._used: set[str] = set()  # names of the candidates that run graphs

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> HeteroPrepared:
        """Choose a plan of a graph and prepare it; see `BackendContext.prepare`.

        Raises:
            ConfigError: The graph's config names other backends than the candidates, or pins nodes
                that the graph does not have.
            BackendError: CHOICE_CHECK_FAILED: the rules exclude all candidates, or
                GRAPH_ERROR_FINALIZE_FAILED: all others failed; every reason is listed. Or the
                preparation was ended.
        """
        with _alone(request.control):
            try:
                chosen = _Choosing(self, self._backend, graph, request).result()
                self._used |= {part.backend for part in chosen.parts}
            finally:
                self._close_unused()
        return chosen

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return the images of the candidates that run the graphs in one.

        Raises:
            BackendError: A candidate lacks the capability `caching`.
        """
        found = super().image(graphs)
        facts = np.frombuffer(msgspec.json.encode(found.fingerprint, order="sorted"), np.uint8)
        own = self._backend.fingerprint(self._device)
        return replace(found, fingerprint=own, blobs={**found.blobs, _FACTS: facts})

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Restore graphs on the candidates that were chosen when the image was created.

        Raises:
            BackendError: A candidate lacks the capability `caching`.
            ContainerError: The image is damaged, or of backends that are not candidates here.
        """
        image.require(self._backend.fingerprint(self._device))
        with _CHOOSING:
            try:
                found = super().restore(_joined(image), graph, request)
                for restored in found.values():
                    self._note_restored(restored.prepared)
            finally:
                self._close_unused()
        return found

    def _note_restored(self, prepared: Prepared) -> None:
        if isinstance(prepared, HeteroPrepared):  # all are
            self._used |= {part.backend for part in prepared.parts}
            names = [share.backend for share in prepared.placement.shares]
            name = names[0] if len(names) == 1 else f"{HETERO}:{','.join(names)}"
            choice = Choice(name, "chosen when the image was created", ())
            prepared.placement = msgspec.structs.replace(prepared.placement, choice=choice)

    def prepare_plan(
        self, graph: CheckedGraph, plan: Plan, request: PrepareRequest
    ) -> HeteroPrepared:
        """Prepare a graph as a plan says."""
        return self._prepare_parts(graph, plan.members, plan.parts, plan.report, request)

    def _image_members(self, used: Collection[str]) -> tuple[Member, ...]:
        return tuple(member for member in self._backend.members if member.name in used)

    def _close_unused(self) -> None:
        unused = [name for name in self._contexts if name not in self._used]
        close_all((name, self._contexts.pop(name)) for name in unused)


def _joined(image: Image) -> Image:
    """Return an image with the facts of the candidates that it is for.

    Raises:
        ContainerError: It has none.
    """
    blobs = dict(image.blobs)
    facts = blobs.pop(_FACTS, None)
    try:
        data = b"" if facts is None else facts.tobytes()
        return replace(image, fingerprint=msgspec.json.decode(data, type=Fingerprint), blobs=blobs)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(f"the facts of the candidates cannot be read: {error}") from error


@contextmanager
def _alone(control: RunControl) -> Iterator[None]:
    """Enter when no other thread chooses.

    Raises:
        BackendError: The control ended the preparation before.
    """
    while not _CHOOSING.acquire(timeout=_WAIT_S):
        control.check()
    try:
        yield
    finally:
        _CHOOSING.release()


class _Choosing:
    """The choice for one graph."""

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
                prepared = self._prepared(plan, record)
                if prepared is not None:
                    can_stop = all(m.capabilities.cancel for m in plan.members)
                    entries[plan.name] = Entry(plan.name, prepared, can_stop)
                    events[plan.name] = record
            made = [plan for plan in plans if plan.name in entries]
            selection, times = self._selected(made, entries, len(plans))
        except BaseException:
            close_all((name, entry.prepared) for name, entry in entries.items())
            raise
        chosen = entries.pop(selection.plan.name)
        close_all((name, entry.prepared) for name, entry in entries.items())
        self._keep_events(events[chosen.name])
        tried = [times.candidate(p.name) for p in plans if p.name in events]
        return chosen.prepared, selection.choice([*tried, *self._excluded])

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
        measure([entries[p.name] for p in plans], self._options.trial_seconds, check)
        times = Times(
            {e.name: 1e3 * e.seconds for e in entries.values() if e.seconds and not e.failed},
            {e.name: e.failed for e in entries.values() if e.failed},
        )
        # a candidate that failed may be there again the next time
        if len(plans) == count and all(not e.failed or e.is_stopped for e in entries.values()):
            self._decisions.write(times)
        return fastest(plans, times, self._options.power), times

    def _prepared(self, plan: Plan, record: Recorder | None = None) -> HeteroPrepared | None:
        """Return a prepared plan; None if it fails, which is noted."""
        request = self._request
        if record is not None:
            request = replace(request, record=record)
        request.control.check()
        try:
            return self._context.prepare_plan(self._graph, plan, request)
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
