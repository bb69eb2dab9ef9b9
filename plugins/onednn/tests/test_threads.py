"""Prepared in one thread, run in others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dovetail.container import WeightStore


def in_thread(work: Callable[[], Any]) -> Any:
    """Runs work in a thread of its own, which ends before this does."""
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
