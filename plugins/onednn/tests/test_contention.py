"""Other work on the processors: how it is noticed, and that libgomp then spins less."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dovetail_onednn import Computing, contention, library, primitives, threads
from dovetail_onednn._api import Arg
from dovetail_onednn.contention import (
    CHECKS,
    MOST_CHECKS,
    SOON,
    Contention,
    Watch,
    contention_of,
)
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.primitives import Description, Primitive, PrimitiveDesc, reorder_primitive

BUSY, BETWEEN, QUIET = 0.4, 0.15, 0.02


class OpenMp:
    """Counts the teams that are asked for."""

    def __init__(self) -> None:
        self.teams: list[int] = []
        self.started = threading.Event()

    def omp_get_num_procs(self) -> int:
        raise AssertionError("only its address is used")

    def GOMP_parallel(self, work: Any, data: Any, count: Any, flags: Any) -> None:  # noqa: N802
        self.teams.append(count.value)
        self.started.set()


@pytest.fixture
def openmp(monkeypatch: pytest.MonkeyPatch) -> OpenMp:
    monkeypatch.setattr(contention.ctypes, "cast", lambda function, kind: function)
    return OpenMp()


def idle_teams() -> int:
    return sum(t.name == "dovetail-idle-team" for t in threading.enumerate())


def test_several_checks_in_a_row_decide(openmp: OpenMp) -> None:
    others = idle_teams()  # other tests met real contention
    watched = Contention(openmp, 2)
    for share in [BUSY] * (CHECKS - 1) + [QUIET] + [BUSY] * (CHECKS - 1) + [BETWEEN]:
        watched.report(share)
        assert not watched.is_busy
    for _ in range(CHECKS):
        watched.report(BUSY)
    assert watched.is_busy
    assert openmp.started.wait(10)
    assert openmp.teams == [2]
    assert idle_teams() == others + 1
    quiet = [QUIET] * (CHECKS - 1)
    for share in [*quiet, BETWEEN, *quiet, BUSY]:
        watched.report(share)
        assert watched.is_busy
    for _ in range(CHECKS):
        watched.report(QUIET)
    assert not watched.is_busy
    assert idle_teams() == others
    assert openmp.teams == [2]


def test_contention_that_returns_soon_lasts_longer(openmp: OpenMp) -> None:
    watched = Contention(openmp, 2)

    def checks_until(is_busy: bool, share: float) -> int:
        count = 0
        while watched.is_busy is not is_busy:
            watched.report(share)
            count += 1
        return count

    ends = []
    for _ in range(6):
        assert checks_until(True, BUSY) == CHECKS
        ends.append(checks_until(False, QUIET))
    assert ends == [3, 6, 12, 24, 48, MOST_CHECKS]
    for _ in range(SOON):
        watched.report(QUIET)
    assert checks_until(True, BUSY) == CHECKS
    assert checks_until(False, QUIET) == CHECKS


def test_a_forked_process_starts_anew(openmp: OpenMp) -> None:
    watched = Contention(openmp, 2)
    for _ in range(CHECKS):
        watched.report(BUSY)
    team = watched._team
    assert team is not None
    watched.forget()
    assert not watched.is_busy
    team.close()


def test_without_another_thread_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, openmp: OpenMp
) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    watched = Contention(openmp, 2)
    for _ in range(CHECKS):
        watched.report(BUSY)
    assert not watched.is_busy


def test_the_share_is_of_computing_time(monkeypatch: pytest.MonkeyPatch, openmp: OpenMp) -> None:
    shares: list[float] = []
    waits = iter([5.0, 5.01, None, 6.0, 6.04])
    monkeypatch.setattr(contention, "waited_s", lambda: next(waits))
    watched = Contention(openmp, 2)
    monkeypatch.setattr(watched, "report", shares.append)
    watch = Watch()
    for _ in range(10):  # 100 ms: five checks, and no share beside a time that is not known
        watch.add(0.01, watched)
    assert shares == [pytest.approx(0.5), pytest.approx(2)]


def test_a_session_with_a_thread_for_each_processor_is_watched(
    monkeypatch: pytest.MonkeyPatch, openmp: OpenMp
) -> None:
    watched = Contention(openmp, 2)
    shares: list[float] = []
    monkeypatch.setattr(watched, "report", shares.append)
    monkeypatch.setattr(contention, "INTERVAL_S", 0)
    monkeypatch.setattr(contention, "waited_s", lambda: 1.0)
    monkeypatch.setattr(threads, "_WATCH", Watch())
    monkeypatch.setattr(threads, "library", lambda: replace(library(), contention=watched))
    for count, runs in ((1, 0), (2, 1), (3, 2)):  # the first of a thread has nothing before it
        with Computing(count):
            pass
        with Computing(count):
            pass
        assert len(shares) == (0 if count == 1 else 2 * runs - 1), count


def test_where_nothing_can_be_seen_nothing_is_watched(
    monkeypatch: pytest.MonkeyPatch, openmp: OpenMp
) -> None:
    monkeypatch.setattr(openmp, "omp_get_num_procs", lambda: 2)
    assert contention_of(object()) is None  # not libgomp's functions
    monkeypatch.setattr(contention, "waited_s", lambda: 0.0)
    watched = contention_of(openmp)
    assert watched is not None
    assert watched.processors == 2
    monkeypatch.setattr(contention, "waited_s", lambda: None)
    assert contention_of(openmp) is None


def test_the_librarys_own_functions_make_and_end_a_team() -> None:
    watched = library().contention
    if watched is None:
        pytest.skip("this system does not report waiting times")
    assert contention.waited_s() is not None
    mine = Contention(watched._openmp, watched.processors)
    for _ in range(CHECKS):
        mine.report(BUSY)
    deadline = time.monotonic() + 10
    while not mine.is_busy and time.monotonic() < deadline:
        pass
    assert idle_teams() >= 1
    for _ in range(CHECKS):
        mine.report(QUIET)
    assert not mine.is_busy


def test_steps_use_fewer_threads_meanwhile(
    model: Any, monkeypatch: pytest.MonkeyPatch, openmp: OpenMp
) -> None:
    watched = Contention(openmp, 2)
    monkeypatch.setattr(threads, "library", lambda: replace(library(), contention=watched))
    monkeypatch.setattr(primitives, "library", threads.library)
    y = model.add("Relu", model.conv(model.input("x", 1, 32, 32, 32), "conv", 32), name="relu")
    model.output(model.conv(y, "last", 32))
    feeds, computing = model.feeds(), Computing(2)
    with computing:
        prepared = model.prepare()
        before = model.run(prepared, feeds)["last"]
    used: list[int] = []
    execute = primitives.BoundPrimitive.__call__

    def counted(bound: primitives.BoundPrimitive) -> None:
        execute(bound)
        used.append(threads.library().get_threads())

    monkeypatch.setattr(primitives.BoundPrimitive, "__call__", counted)
    for shares, count in (([BUSY] * CHECKS, 1), ([QUIET] * CHECKS, 2)):
        for share in shares:
            watched.report(share)
        with computing:
            used.clear()
            np.testing.assert_array_equal(model.run(prepared, feeds)["last"], before)
        assert set(used) == {count}


def test_only_a_watched_session_uses_fewer(monkeypatch: pytest.MonkeyPatch, openmp: OpenMp) -> None:
    watched = Contention(openmp, 4)
    monkeypatch.setattr(threads, "library", lambda: replace(library(), contention=watched))
    assert [threads.fewer_threads(count) for count in (0, 1, 2, 4, 5)] == [0, 0, 0, 2, 2]
    monkeypatch.setattr(threads, "library", lambda: replace(library(), contention=None))
    assert threads.fewer_threads(4) == 0


class Interruption:
    """Calls a function once, after the access of a number to attributes of a primitive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.primitive: Primitive | None = None
        self.left = 0
        self.call: Callable[[], None]
        for name in names:
            slot = vars(Primitive)[name]
            both = property(partial(self._get, slot), partial(self._set, slot))
            monkeypatch.setattr(Primitive, name, both)

    def _get(self, slot: Any, primitive: Primitive) -> object:
        value = slot.__get__(primitive)
        self._accessed(primitive)
        return value

    def _set(self, slot: Any, primitive: Primitive, value: object) -> None:
        slot.__set__(primitive, value)
        self._accessed(primitive)

    def _accessed(self, primitive: Primitive) -> None:
        if primitive is self.primitive:
            self.left -= 1
            if self.left == 0:
                self.call()


@pytest.mark.parametrize("fits", [True, False])
def test_two_threads_that_need_fewer_at_once_agree(
    monkeypatch: pytest.MonkeyPatch, openmp: OpenMp, fits: bool
) -> None:
    """Wherever one thread is interrupted, the whole call of the other changes neither's result."""
    watched = Contention(openmp, 4)
    monkeypatch.setattr(threads, "library", lambda: replace(library(), contention=watched))
    described: list[int] = []

    class Recorded(PrimitiveDesc):
        def __init__(self, description: Description) -> None:
            super().__init__(description)
            described.append(self.described.threads)

    desc, other = (MemoryDesc.strided((64, 64), strides) for strides in ((64, 1), (1, 64)))
    found: list[tuple[int, bool] | None] = []

    def find(primitive: Primitive) -> None:
        with Computing(4):
            fewer = primitive.with_fewer_threads({Arg.SOURCE: desc if fits else other})
            found.append(None if fewer is None else (fewer.threads, fewer.has_fewer))

    interruption = Interruption(monkeypatch, "_fewer", "_fewer_threads")
    with ThreadPoolExecutor(1) as pool:
        for access in range(1, 9):
            with Computing(4):
                primitive = reorder_primitive(desc, desc)
            with monkeypatch.context() as patch:
                patch.setattr(primitives, "PrimitiveDesc", Recorded)
                interruption.primitive, interruption.left = primitive, access
                interruption.call = lambda p=primitive: pool.submit(find, p).result()
                find(primitive)
    assert set(found) == {(2, False) if fits else None}
    assert set(described) == {2}
    assert len(found) > 8 + 2  # calls of one thread, and of the other
