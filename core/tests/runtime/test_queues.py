"""Queues of asynchronous executions: contexts share a device's, and ended runs leave it usable."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import reference_backend
from reference_backend import OPS, ReferenceBackend, finalized, out
from spaced_backend import SpacedBackend

from dovetail import runtime
from dovetail.errors import BackendError
from dovetail.runtime import Execution, SignalKind

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def busy(backend: runtime.Backend) -> Execution:
    """Return a run that occupies the device until the gate is opened."""
    run = finalized(backend, "Wait").execute_async({"x": X}, out())
    assert reference_backend.ENTERED.wait(20)
    return run


def demand_runs(graph: runtime.Graph, factor: int) -> None:
    """Check that a graph computes directly and from the queue."""
    taken = out()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * factor)
    assert graph.execute_async({"x": X}, taken).wait(20)
    np.testing.assert_array_equal(taken["y"], X * factor)


def test_each_context_has_a_depth_of_its_own(backend: runtime.Backend) -> None:
    first = busy(backend)
    graphs = [finalized(backend, "Scale", async_execute_queue_depth=depth) for depth in (1, 3)]
    runs = []
    for graph, depth in zip(graphs, (1, 3), strict=True):
        runs += [graph.execute_async({"x": X}, out()) for _ in range(depth)]
        with pytest.raises(BackendError) as caught:
            graph.execute_async({"x": X}, out())
        assert caught.value.number == 6025
    assert not any(run.done or run.wait(0) for run in (first, *runs))
    reference_backend.GATE.set()
    assert all(run.wait(20) for run in (first, *runs))
    for graph in graphs:
        demand_runs(graph, 2)


def test_priorities_order_the_runs_of_all_contexts(backend: runtime.Backend) -> None:
    first = busy(backend)
    names = ("low", "normal", "normal_high", "high")
    graphs = {name: finalized(backend, "Scale", context_priority=name) for name in names}
    order: list[str] = []
    runs = [
        graphs[name].execute_async({"x": X}, out(), notify=lambda _, n=name: order.append(n))
        for name in (*names, *names)
    ]
    reference_backend.GATE.set()
    assert all(run.wait(20) for run in (first, *runs))
    for graph in graphs.values():
        graph.context.free()  # waits for the last notification
    assert order == [name for name in reversed(names) for _ in range(2)]


@pytest.mark.parametrize("kind", [SignalKind.ABORT, SignalKind.TIMEOUT])
def test_a_run_that_is_stopped_while_it_waits_leaves_the_graph_usable(
    backend: runtime.Backend, kind: SignalKind
) -> None:
    first = busy(backend)
    graph = finalized(backend, "Scale", "Scale", async_execute_queue_depth=2)
    signal = backend.create_signal(kind, 0 if kind is SignalKind.TIMEOUT else None)
    stopped, ended = out(), list[BaseException | None]()
    stopped["y"].fill(-1)
    runs = [
        graph.execute_async({"x": X}, stopped, signal=signal, notify=ended.append),
        graph.execute_async({"x": X}, out()),
    ]
    if kind is SignalKind.ABORT:
        signal.trigger()
    reference_backend.GATE.set()
    assert first.wait(20)
    with pytest.raises(BackendError) as caught:
        runs[0].wait(20)
    assert caught.value.number == (6031 if kind is SignalKind.ABORT else 6033)
    assert runs[1].wait(20)
    assert ended == [caught.value]
    assert np.all(stopped["y"] == -1)  # no step has run
    demand_runs(graph, 4)
    signal.free()  # it controls nothing any more


@pytest.mark.parametrize("kind", [ReferenceBackend, SpacedBackend])
def test_notify_can_queue_the_next_run(kind: type[ReferenceBackend]) -> None:
    with runtime.Backend.create(kind, ops=OPS) as backend:
        graph = finalized(backend, "Scale", async_execute_queue_depth=1)
        outputs = [out() for _ in range(5)]
        finished, failures = threading.Event(), list[BaseException]()

        def queue(i: int) -> None:
            def notify(error: BaseException | None) -> None:
                try:
                    assert error is None
                    if i + 1 == len(outputs):
                        finished.set()
                    else:
                        queue(i + 1)  # the place in the queue is free again
                except BaseException as failure:  # noqa: BLE001 - shown by the test
                    failures.append(failure)
                    finished.set()

            graph.execute_async({"x": X + i}, outputs[i], notify=notify)

        queue(0)
        assert finished.wait(20)
        assert failures == []
        for i, taken in enumerate(outputs):
            np.testing.assert_array_equal(taken["y"], (X + i) * 2)
