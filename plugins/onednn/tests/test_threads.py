"""Prepared in one thread, run in others; how many compute, and who else runs meanwhile."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore, aligned_empty
from dovetail.errors import BackendError
from dovetail_onednn import Activity, Computing, ReleaseGil, bound_primitive, library
from dovetail_onednn._api import Arg
from dovetail_onednn.errors import check
from dovetail_onednn.layouts import vector
from dovetail_onednn.primitives import reorder_primitive
from dovetail_onednn.threads import ACTIVE, current_threads, threads, threads_for


def in_thread(work: Callable[[], Any]) -> Any:
    """Run work in a thread of its own, which ends before this does."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


def with_scratchpads(model: Any) -> Any:
    y = model.conv(model.input("x", 1, 16, 16, 15), "conv1", 15, group=3)
    y = model.conv(model.add("Relu", y, name="relu"), "conv2", 32)
    model.output(model.conv(y, "conv3", 32))
    return model


def test_prepared_in_one_thread_and_run_in_others(model: Any, close: Any) -> None:
    model = with_scratchpads(model)
    feeds = model.feeds()
    wanted = model.expected(feeds)["conv3"]

    prepared = in_thread(model.prepare)  # its thread is gone when the others begin
    assert any(step.scratch for step in prepared.steps)
    for _ in range(3):
        close(in_thread(lambda: model.run(prepared, feeds))["conv3"], wanted)
    close(model.run(prepared, feeds)["conv3"], wanted)


def test_plans_that_share_weights_run_at_once(new_model: Any, close: Any) -> None:
    store = WeightStore()
    models = [with_scratchpads(new_model()) for _ in range(4)]
    plans = [model.prepare(store) for model in models]
    start = threading.Barrier(len(models))

    def repeatedly(model: Any, prepared: Any) -> tuple[Any, Any]:
        start.wait(timeout=60)
        for _ in range(20):
            feeds = model.feeds()
            found = model.run(prepared, feeds)["conv3"]
        return feeds, found

    with ThreadPoolExecutor(len(models)) as pool:
        results = list(pool.map(repeatedly, models, plans))
    for model, (feeds, found) in zip(models, results, strict=True):
        close(found, model.expected(feeds)["conv3"])


def test_every_thread_computes_with_its_own_number(model: Any, close: Any) -> None:
    model = with_scratchpads(model)
    feeds = model.feeds()
    wanted = model.expected(feeds)["conv3"]

    def alone() -> Any:
        before = threads_of_this_thread()
        with threads(1):
            prepared = model.prepare()
            found = model.run(prepared, feeds)["conv3"], threads_of_this_thread()
        assert threads_of_this_thread() == before
        return found

    found, count = in_thread(alone)
    close(found, wanted)
    assert count == 1
    with threads(3):
        assert threads_of_this_thread() == 3
        with threads(None):
            assert threads_of_this_thread() == library().own_threads
        assert threads_of_this_thread() == 3


def test_little_work_is_for_one_thread() -> None:
    with threads(3):
        with pytest.raises(BackendError), threads_for(1000):
            check(2, "failing on the way")
        with threads_for(1000):
            assert threads_of_this_thread() == 1
        assert threads_of_this_thread() == 3
        with threads_for(1 << 20):
            assert threads_of_this_thread() == 3


def made() -> Callable[[], None]:
    """A primitive for as many threads as there are now, and what it moves."""
    desc, source, target = vector(8), aligned_empty(32), aligned_empty(32)
    places = {Arg.SOURCE: source, Arg.DESTINATION: target}
    found = {arg: (desc, int(place.ctypes.data)) for arg, place in places.items()}
    bound = reorder_primitive(desc, desc).bind(found)

    def run() -> None:
        bound()
        assert np.array_equal(source, target)

    return run


def test_primitives_find_the_threads_they_are_for() -> None:
    """One for a single thread leaves that to the next one, which takes its own."""
    before = threads_of_this_thread()
    with threads(3):
        with threads_for(1000):
            little = made()
        great = made()
        counts = []
        for run in (little, little, great, great, little):
            run()
            counts.append(threads_of_this_thread())
        assert counts == [1, 1, 3, 3, 1]
        assert current_threads() == 3  # what is described now is not for one
        little()
        with threads(2):
            great()
            assert threads_of_this_thread() == 2
            little()
        assert current_threads() == 3
    assert threads_of_this_thread() == current_threads() == before


def test_a_thread_that_nobody_entered_keeps_its_number() -> None:
    with threads(1):
        little = made()

    def bare() -> tuple[int, int]:
        library().set_threads(3)
        little()
        return threads_of_this_thread(), current_threads()

    assert in_thread(bare) == (1, 3)


def test_a_session_counts_while_it_computes() -> None:
    first, second = Computing(1), Activity()
    with first:
        assert first in ACTIVE
        with second:
            assert {first, second} <= ACTIVE
    with pytest.raises(BackendError), first:
        check(2, "failing on the way")
    assert not {first, second} & ACTIVE


@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (1, 7, 1), (2, 1, 3)])
def test_sessions_of_different_numbers_share_no_compiled_code(
    new_model: Any, close: Any, counts: tuple[int, ...]
) -> None:
    # the second one crashed, or was wrong, when a small product was described with one thread and
    # compiled with two
    for count in counts:
        model = new_model()
        x, w, b = model.input("x", 1, 12, 128), model.random("w", 128, 32), model.random("b", 32)
        y = model.add("ElementWiseAdd", model.add("MatMul", x, w, name="m"), b, name="biased")
        model.output(model.add("ElementWiseAdd", y, model.input("r", 1, 12, 32), name="sum"))
        feeds = model.feeds()
        with threads(count):
            found = model.run(model.prepare(), feeds)["sum"]
        close(found, model.expected(feeds)["sum"])


def threads_of_this_thread() -> int:
    return int(ctypes.CDLL(library().path).omp_get_max_threads())


@pytest.mark.parametrize("policy", ReleaseGil)
@pytest.mark.parametrize("sessions", [1, 2])
def test_who_else_may_run_meanwhile(
    monkeypatch: pytest.MonkeyPatch, policy: ReleaseGil, sessions: int
) -> None:
    called: list[str] = []
    for name in ("primitive_execute", "primitive_execute_held"):
        monkeypatch.setitem(library().functions, name, lambda *_, n=name: called.append(n) or 0)
    run = reorder_primitive(vector(8), vector(8)).bind({}, policy)
    monkeypatch.setattr(bound_primitive, "ACTIVE", set(range(sessions)))
    for _ in range(5):
        run()
    held = policy is ReleaseGil.NEVER or (policy is ReleaseGil.AUTO and sessions == 1)
    assert called == ["primitive_execute_held" if held else "primitive_execute"] * 5


def test_long_calls_let_others_run_once_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def slow(name: str) -> Any:
        def execute(*_: Any) -> int:
            called.append(name)
            time.sleep(0.002)
            return 0

        return execute

    for name in ("primitive_execute", "primitive_execute_held"):
        monkeypatch.setitem(library().functions, name, slow(name))
    run = reorder_primitive(vector(8), vector(8)).bind({}, ReleaseGil.AUTO)
    for _ in range(5):
        run()
    assert called == ["primitive_execute_held"] * 3 + ["primitive_execute"] * 2
