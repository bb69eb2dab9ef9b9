"""A replay from beginning to end: the calls, their comparison, and a report."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dovetail.errors import DovetailError
from dovetail.files import safe_name, unwritable
from dovetail.ir import Array
from dovetail.ops import OpPackage
from dovetail.runtime.api_table import API
from dovetail.runtime.backend import Backend
from dovetail.runtime.calls import CallRecord, InstalledResolver, Played, Player, differences
from dovetail.runtime.calls.record import ErrorRecord
from dovetail.runtime.graph import Graph
from dovetail.verification import ConfiguredVerifier
from dovetail_saver.choices import Threads, Timing
from dovetail_saver.describing import HandleNames, describe
from dovetail_saver.replay.comparing import TensorComparison, Verdict, compare_outputs
from dovetail_saver.replay.pacing import Clock, run_in_order, run_in_threads
from dovetail_saver.replay.playing import Step, Stepper
from dovetail_saver.replay.retargeting import Retarget
from dovetail_saver.trace import Entry, Trace
from dovetail_saver.uses import EXECUTES

_MAX_LISTED = 1000  # differences and tensors that a report names


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to replay a trace.

    Attributes:
        retarget: Creates the rewriting of records for another backend; None for the recorded one.
        verifiers: Verifiers for outputs; with none of them, outputs have to be equal.
        compare: Whether outputs are compared at all.
        all_results: Whether results that are no tensors are compared, too; they depend on the
            backend.
        loops: How often the trace is replayed.
        timing: When calls are made.
        threads: Threads that calls are made from.
        keep_going: Whether to go on after a call that is rejected.
        outputs: Folder for the outputs, or None.
        packages: Op packages that are not installed.
    """

    retarget: Callable[[], Retarget] | None = None
    verifiers: Sequence[ConfiguredVerifier] = ()
    compare: bool = False
    all_results: bool = False
    loops: int = 1
    timing: Timing = Timing.FAST
    threads: Threads = Threads.ONE
    keep_going: bool = False
    outputs: Path | None = None
    packages: Sequence[OpPackage] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """A call that did not do what was recorded.

    Attributes:
        call: Its number.
        text: The call as it was recorded.
        reason: What is different.
        is_rejected: Whether it was to succeed, but failed.
        where: Its record.
    """

    call: int
    text: str
    reason: str
    is_rejected: bool
    where: str


@dataclass(slots=True)
class Report:
    """The result of a replay; counts are those of all loops.

    Attributes:
        calls, executes, skipped: Counts of calls that were made, of executions among them, and of
            calls that were not made.
        backends: Names of the backends that made the calls.
        recorded_backends: Names of the backends in the header of the trace.
        tensors: Count of compared outputs by verdict.
        differing: Count of calls that did something else.
        differences: These calls, the first 1,000.
        unequal_count: Count of outputs that are not equal.
        unequal: These outputs, the first 1,000.
        worst: The output that differs most.
        failures: Count of calls and outputs that differ.
        seconds: Duration of each loop.
        recorded_seconds: Duration of the recorded calls, from the first to the last.
        dropped: Recorded settings that the backend was not given.
        is_cut: Whether the trace has no end.
    """

    calls: int = 0
    executes: int = 0
    skipped: int = 0
    backends: list[str] = field(default_factory=list)
    recorded_backends: tuple[str, ...] = ()
    tensors: dict[str, int] = field(default_factory=dict)
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    unequal_count: int = 0
    unequal: list[TensorComparison] = field(default_factory=list)
    worst: TensorComparison | None = None
    failures: int = 0
    seconds: list[float] = field(default_factory=list)
    recorded_seconds: float = 0.0
    dropped: tuple[str, ...] = ()
    is_cut: bool = False

    def add_tensor(self, found: TensorComparison) -> None:
        """Count a compared output."""
        self.tensors[found.verdict] = self.tensors.get(found.verdict, 0) + 1
        if found.verdict in (Verdict.EQUAL, Verdict.NOT_RECORDED):
            return
        self.failures += found.verdict is Verdict.DIFFERENT
        self.unequal_count += 1
        if len(self.unequal) < _MAX_LISTED:
            self.unequal.append(found)
        if self.worst is None or found.badness > self.worst.badness:
            self.worst = found

    def add_difference(self, found: Difference) -> None:
        """Count a call that did something else."""
        self.failures += 1
        self.differing += 1
        if len(self.differences) < _MAX_LISTED:
            self.differences.append(found)


class Session:
    """Replays a trace.

    Args:
        path: The trace.
        request: How.
    """

    def __init__(self, path: str | os.PathLike[str], request: Request) -> None:
        self._path = path
        self._request = request
        self._report = Report()

    def run(self) -> Report:
        """Replay the trace and return what happened.

        Raises:
            TraceError: The trace is invalid.
            ContainerError: The outputs cannot be written.
        """
        for _ in range(self._request.loops):
            if not self._run_once():
                break
        return self._report

    def _run_once(self) -> bool:
        """Replay the trace once and return whether to go on."""
        request, report = self._request, self._report
        trace = Trace(self._path)
        retarget = None if request.retarget is None else request.retarget()
        loop = _Loop(request, report, trace, is_first=not report.seconds)
        start = time.perf_counter()
        # only with this user's options, not with the trace's
        writes_files = retarget is not None and retarget.has_config
        resolver = InstalledResolver(packages=request.packages, writes_files=writes_files)
        with Player(trace.payloads, resolver) as player:
            stepper = Stepper(player, retarget)
            run = run_in_order if request.threads is Threads.ONE else run_in_threads
            run(trace, stepper.step, lambda step: loop.take(step, player), Clock(request.timing))
        report.seconds.append(time.perf_counter() - start)
        report.recorded_backends = tuple(trace.header.backends)
        report.is_cut = trace.mark is None and trace.read_mark() is None
        if retarget is not None:
            report.dropped = tuple(retarget.dropped)
        return not loop.is_stopped


class _Loop:
    """One replay of a trace: takes its steps, from any thread."""

    def __init__(self, request: Request, report: Report, trace: Trace, *, is_first: bool) -> None:
        self.is_stopped = False
        self._request = request
        self._report = report
        self._trace = trace
        self._is_first = is_first
        self._first_ns: int | None = None
        self._names = HandleNames()
        self._owners: dict[int, int | None] = {}  # graphs of executions that have not ended
        self._lock = threading.Lock()
        self._only_counts = not (
            request.compare or request.all_results or request.outputs is not None
        )

    def take(self, step: Step, player: Player) -> bool:
        """Count a step and return whether to stop."""
        with self._lock:
            record, played = step.entry.record, step.played
            if (
                self._only_counts
                and isinstance(record, CallRecord)
                and record.function == EXECUTES[0]
                and played is not None
                and played.error is None
                and record.error is None
            ):  # the most frequent step
                self._count(record, step)
                return False
            self._take(step, player)
            if step.is_rejected and not self._request.keep_going:
                self.is_stopped = True
            return self.is_stopped

    def _take(self, step: Step, player: Player) -> None:
        entry, played = step.entry, step.played
        record = entry.record
        if isinstance(record, CallRecord):
            self._count(record, step)
            if record.function != EXECUTES[0]:  # which returns no handle, and is the most frequent
                self._names.note(record)
            if API[record.function].ends_later:
                self._owners[record.number] = record.owner
        if played is None:
            return
        if isinstance(played.result, Backend) and played.result.name not in self._report.backends:
            self._report.backends.append(played.result.name)
        if reason := self._reason(played):
            text = describe(record, self._names)
            self._report.add_difference(
                Difference(entry.index, text, reason, step.is_rejected, entry.where)
            )
        is_used = self._request.compare or self._request.outputs is not None
        if is_used and played.error is None and isinstance(played.result, dict):
            owner = (
                played.record.owner
                if isinstance(played.record, CallRecord)
                else self._owners.pop(played.record.number, None)
            )
            graph = player.handle(owner)
            if isinstance(graph, Graph):
                self._outputs(entry, played, played.result, graph)

    def _count(self, record: CallRecord, step: Step) -> None:
        report = self._report
        if step.played is None:
            report.skipped += 1
            return
        report.calls += 1
        report.executes += record.function in EXECUTES
        if self._is_first:
            if self._first_ns is None:
                self._first_ns = record.start_ns
            seconds = (record.start_ns + record.duration_ns - self._first_ns) / 1e9
            if seconds > report.recorded_seconds:
                report.recorded_seconds = seconds

    def _reason(self, played: Played) -> str:
        """Return how a call differs from its record, apart from its outputs."""
        wanted, error = played.record.error, played.error
        if wanted is None and error is None and not self._request.all_results:
            return ""
        is_execute = getattr(played.record, "function", EXECUTES[1]) in EXECUTES
        if (wanted is None) is not (error is None) or is_execute or not self._request.all_results:
            return _error_difference(wanted, error)
        return "; ".join(differences(played))

    def _outputs(
        self, entry: Entry, played: Played, outputs: dict[str, Array], graph: Graph
    ) -> None:
        """Compare and save the outputs of an execution."""
        request = self._request
        if request.compare:
            for found in compare_outputs(
                entry.index, played, graph, self._trace.payloads, request.verifiers, entry.where
            ):
                self._report.add_tensor(found)
        if request.outputs is not None and self._is_first:
            _save(request.outputs / f"call_{entry.index:06}", outputs)


def _error_difference(wanted: ErrorRecord | None, error: Exception | None) -> str:
    """Return how an error differs from the recorded one, by class and code; empty if not."""
    found = None if error is None else ErrorRecord.of(error)
    if found is None or wanted is None:
        if found is wanted:
            return ""
        text = f"{wanted.type} {wanted.code}".strip() if wanted is not None else ""
        return f"expected {text}, but it succeeds" if found is None else _error_text(error)
    if (wanted.type, wanted.code) == (found.type, found.code):
        return ""
    return f"expected {wanted.type} {wanted.code}, got {_error_text(error)}"


def _error_text(error: Exception | None) -> str:
    if isinstance(error, DovetailError):
        problems = "".join(f"\n  {problem}" for problem in error.problems)
        where = f"{error.where}: " if error.where else ""
        hint = f" ({error.hint})" if error.hint else ""
        return f"{error.code}: {where}{error.message}{hint}{problems}"
    return f"{type(error).__name__}: {error}"


def _save(folder: Path, outputs: dict[str, Array]) -> None:
    """Write outputs as .npy files.

    Raises:
        ContainerError: They cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in outputs.items():
            np.save(folder / f"{safe_name(name)}.npy", array, allow_pickle=False)
    except OSError as error:
        raise unwritable(folder, error) from error
