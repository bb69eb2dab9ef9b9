"""Overlapping runs: a few at a time, each on a graph with buffers of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dovetail.errors import BackendError
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Binding, RunControl
from dovetail.runtime.plan.overlap import LANES, OverlappedRuns

SECONDS = 30  # until a test fails instead of waiting


class Lane(PreparedBase):
    """A graph whose runs last until they may end."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.bound: list[str] = []

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        name = str(inputs["name"])
        self.bound.append(name)
        self._runs.started.append(name)
        self._runs.begun.release()
        assert self._runs.end.acquire(timeout=SECONDS)
        if name == "fails":
            raise ValueError(name)

    def unbind(self) -> None:
        self.bound.clear()


class Runs:
    """Overlapping runs of such graphs."""

    def __init__(self) -> None:
        self.begun, self.end, self.ended = (threading.Semaphore(0) for _ in range(3))
        self.started: list[str] = []
        self.failures: list[BaseException] = []
        self.lanes: list[Lane] = []
        self.overlapped = OverlappedRuns(self._lane)

    def _lane(self) -> Lane:
        self.lanes.append(Lane(self))
        return self.lanes[-1]

    def submit(self, name: str, control: RunControl | None = None) -> None:
        given: Any = {"name": name}
        self.overlapped.submit(given, {}, control or RunControl(), self._done)

    def _done(self, failure: BaseException | None) -> None:
        self.failures += [failure] if failure is not None else []
        self.ended.release()

    def wait_for_begin(self) -> None:
        assert self.begun.acquire(timeout=SECONDS)

    def finish(self) -> None:
        """Let a run end, and wait for that."""
        self.end.release()
        assert self.ended.acquire(timeout=SECONDS)


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs()
    yield made
    made.overlapped.close()


def test_runs_in_a_row_use_one_graph(runs: Runs) -> None:
    for name in "abc":
        runs.submit(name)
        runs.finish()
    assert runs.started == ["a", "b", "c"]
    assert len(runs.lanes) == 1
    runs.overlapped.forget()
    runs.submit("d")
    runs.finish()
    assert len(runs.lanes) == 2


def test_further_runs_wait_for_a_thread(runs: Runs) -> None:
    names = [str(i) for i in range(LANES + 1)]
    for name in names:
        runs.submit(name)
    for _ in range(LANES):
        runs.wait_for_begin()
    assert len(runs.lanes) == LANES
    assert not runs.begun.acquire(timeout=0.05)  # a third one would begin at once
    for _ in names:
        runs.finish()
    assert sorted(runs.started) == names
    assert len(runs.lanes) == LANES
    assert not runs.failures


def test_buffers_are_dropped_at_once_or_at_the_end_of_a_run(runs: Runs) -> None:
    runs.submit("idle")
    runs.submit("running")
    for _ in range(2):
        runs.wait_for_begin()
    runs.finish()
    runs.overlapped.unbind()
    assert sorted(map(len, (lane.bound for lane in runs.lanes))) == [0, 1]
    runs.finish()
    assert [lane.bound for lane in runs.lanes] == [[], []]
    for name in "ab":
        runs.submit(name)
    for _ in range(2):
        runs.wait_for_begin()
        runs.finish()
    assert len(runs.lanes) == 2  # both are used again
    assert sorted(name for lane in runs.lanes for name in lane.bound) == ["a", "b"]


def test_a_failed_run_is_reported_and_its_graph_used_again(runs: Runs) -> None:
    for name in ("fails", "a"):
        runs.submit(name)
        runs.finish()
    (failure,) = runs.failures
    assert isinstance(failure, ValueError)
    assert len(runs.lanes) == 1


def test_a_run_whose_control_has_ended_does_not_begin(runs: Runs) -> None:
    class Ended(RunControl):
        def check(self) -> None:
            raise BackendError("ended", code="GRAPH_ERROR_ABORTED")

    runs.submit("a", Ended())
    assert runs.ended.acquire(timeout=SECONDS)
    assert [type(failure) for failure in runs.failures] == [BackendError]
    assert not runs.started


def test_a_thread_that_cannot_start_is_an_error(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", fail)
    with pytest.raises(BackendError, match="overlapping executions: can't start new thread"):
        runs.submit("a")


def test_a_run_may_close_its_runs_when_it_is_done() -> None:
    runs = Runs()
    closed = threading.Event()

    def done(failure: BaseException | None) -> None:
        runs.overlapped.close()
        closed.set()

    given: Any = {"name": "a"}
    runs.overlapped.submit(given, {}, RunControl(), done)
    runs.end.release()
    assert closed.wait(SECONDS)
