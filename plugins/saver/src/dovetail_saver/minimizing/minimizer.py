"""The search for the smallest trace that still fails.

Three steps, until none of them helps: fewer calls (with all that they depend on), fewer nodes of
each graph, and calls left out one by one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dovetail.errors import ConfigError, DovetailError
from dovetail.ir import Array, Blob
from dovetail.ops import OpPackage
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail_saver.dependencies import Dependencies
from dovetail_saver.interior import InteriorPlayer
from dovetail_saver.minimizing.checks import Verdict
from dovetail_saver.minimizing.delta import smallest_failing
from dovetail_saver.minimizing.drafts import Draft, Selection
from dovetail_saver.minimizing.removal import removable, without
from dovetail_saver.minimizing.surgery import nodes_of, with_nodes
from dovetail_saver.replay import Retarget
from dovetail_saver.rewriting import TraceRecord
from dovetail_saver.trace import Trace, require_new

_Calls = TypeVar("_Calls", Draft, Selection)


@dataclass(frozen=True, slots=True)
class Minimized:
    """The result of a minimization.

    Attributes:
        before, after: Counts of calls.
        checks: Count of the traces that were checked.
        uncut: Why graphs were not reduced; empty if they were.
    """

    before: int
    after: int
    checks: int
    uncut: str = ""


def minimize(
    path: Path,
    folder: Path,
    check: Callable[[Path], Verdict],
    backend: str | None = None,
    packages: Sequence[OpPackage] = (),
) -> Minimized:
    """Write the smallest trace that a search finds for which a check says that it is bad.

    Args:
        path: A trace that is bad.
        folder: Folder of the new trace, new or empty.
        check: Says whether a trace is good or bad.
        backend: Computes values of tensors inside of graphs; by default the recorded backend.
        packages: Op packages that are not installed.

    Raises:
        ConfigError: The trace is not bad, or the folder is in use.
        TraceError: The trace is invalid.
        ContainerError: It cannot be written.
    """
    require_new(folder)
    return _Search(Trace(path), check, backend, packages).run(folder)


class _Search:
    def __init__(
        self,
        trace: Trace,
        check: Callable[[Path], Verdict],
        backend: str | None,
        packages: Sequence[OpPackage],
    ) -> None:
        self._trace = trace
        self._check = check
        self._backend = backend
        self._packages = packages
        self._known: dict[int, bool] = {}  # verdicts by hash of the records
        self._checks = 0
        self._uncut = ""

    def run(self, folder: Path) -> Minimized:
        before = self._trace.count()
        whole = Selection(self._trace, before)
        if not self._fails(whole):
            raise ConfigError(
                "the check does not say that the trace is bad",
                code="USAGE",
                where=str(self._trace.folder),
                hint="the command must end with a code from 1 to 127, but not 125, for the whole "
                "trace",
            )
        draft = self._fewer_calls(whole).draft()  # now in memory: a long trace has become short
        while True:
            smaller = self._fewer_calls(self._one_by_one(self._fewer_nodes(draft)))
            if smaller.calls == draft.calls:
                break
            draft = smaller
        draft.write(self._trace, folder)
        return Minimized(before, draft.calls, self._checks, self._uncut)

    def _fails(self, draft: Draft | Selection) -> bool:
        """Return whether a draft is bad."""
        key = draft.key
        found = self._known.get(key)
        if found is None:
            self._checks += 1
            with tempfile.TemporaryDirectory(prefix="dovetail-minimize-") as name:
                draft.write(self._trace, Path(name) / "trace")
                found = self._check(Path(name) / "trace") is Verdict.BAD
            self._known[key] = found
        return found

    def _fewer_calls(self, draft: _Calls) -> _Calls:
        """Return a draft of some calls and those that they depend on: those of few graphs first."""
        dependencies = Dependencies(draft.entries())
        graphs = {
            e.index: _graph_of(e.record)
            for e in draft.entries()
            if not isinstance(e.record, CompletionRecord)
        }

        def of(chosen: Iterable[int]) -> _Calls:
            return draft.of(dependencies.closure(chosen))

        def calls_of(chosen: Sequence[int | None]) -> list[int]:
            return [i for i, graph in graphs.items() if graph is None or graph in chosen]

        known = [graph for graph in dict.fromkeys(graphs.values()) if graph is not None]
        few = smallest_failing(known, lambda chosen: self._fails(of(calls_of(chosen))))
        calls = calls_of(few)
        return of(smallest_failing(calls, lambda chosen: self._fails(of(chosen))))

    def _fewer_nodes(self, draft: Draft) -> Draft:
        """Return a draft whose graphs have fewer nodes."""
        interior = self._interior(draft)
        if interior is None:
            return draft
        for graph in _graphs(draft):
            nodes = nodes_of(draft, graph)
            if not nodes:
                continue

            def of(chosen: Sequence[int], draft: Draft = draft, graph: int = graph) -> Draft:
                return with_nodes(draft, graph, chosen, interior)

            whole = of(nodes)
            if not self._fails(whole):  # the outputs that were not recorded matter
                continue
            rest = smallest_failing(nodes, lambda chosen, of=of: self._fails(of(chosen)))  # type: ignore[misc]
            draft = of(rest)
        return draft

    def _one_by_one(self, draft: Draft) -> Draft:
        """Return a draft in which no call can be left out."""
        position = 0
        while position < len(candidates := removable(draft)):
            smaller = without(draft, candidates[position])
            if smaller.calls and self._fails(smaller):
                draft = smaller  # the next candidate is at the same position
            else:
                position += 1
        return draft

    def _interior(self, draft: Draft) -> dict[int, dict[str, Array]] | None:
        """Return the values of all tensors by number of the execution; None without a backend."""
        found: dict[int, dict[str, Array]] = {}
        retarget = None if self._backend is None else Retarget(self._backend)
        with InteriorPlayer(_Payloads(self._trace, draft), retarget, self._packages) as player:
            for entry in draft.entries():
                try:
                    played, execution = player.play(entry)
                except DovetailError as error:
                    self._uncut = error.message
                    return None
                if execution is not None:
                    found[entry.record.number] = {
                        name: array.copy() for name, array in execution.values.items()
                    }
                if played is not None and played.error is not None and played.record.error is None:
                    self._uncut = f"call {entry.record.number}: {played.error}"
                    return None
        self._uncut = ""
        return found


class _Payloads:
    """The payloads of a draft."""

    def __init__(self, trace: Trace, draft: Draft) -> None:
        self._trace = trace
        self._draft = draft

    def get(self, key: str, /) -> Blob | None:
        return self._draft.added.get(key) or self._trace.payloads.get(key)


def _graphs(draft: Draft) -> list[int]:
    """Return the handles of the graphs that have nodes."""
    owners = (
        record.owner
        for record in draft.records
        if isinstance(record, CallRecord) and record.function == "graph_add_node"
    )
    return [owner for owner in dict.fromkeys(owners) if owner is not None]


def _graph_of(record: TraceRecord) -> int | None:
    """Return the handle of the graph that a call is made on; None for other calls."""
    if isinstance(record, CallRecord) and API[record.function].owner == "graph":
        return record.owner
    return None
