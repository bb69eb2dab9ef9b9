"""Executing: buffers, queues, priorities, signals, profiles, and what hooks are told."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import reference_backend
from hook_recorder import Recorder
from reference_backend import finalized, out

from dovetail import runtime
from dovetail.errors import BackendError
from dovetail.ir import DType, TensorKind
from dovetail.plugins.events import NodeExecuted
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import EventType, ProfileLevel, SignalKind

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_outputs_are_written_in_place_and_fresh_otherwise(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    mine = out()
    assert graph.execute({"x": X}, mine)["y"] is mine["y"]
    np.testing.assert_array_equal(mine["y"], X * 2)
    first, second = graph.execute({"x": X})["y"], graph.execute({"x": X + 1})["y"]
    np.testing.assert_array_equal(first, X * 2)
    np.testing.assert_array_equal(second, X * 2 + 2)


def test_strided_inputs_are_taken(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale")
    strided = np.asfortranarray(X)
    np.testing.assert_array_equal(graph.execute({"x": strided})["y"], X * 4)


def test_the_input_is_never_written(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale", "Scale")
    given = X.copy()
    given.flags.writeable = False
    graph.execute({"x": given})
    np.testing.assert_array_equal(given, X)


def test_every_misfit_of_the_buffers_is_reported(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    with pytest.raises(BackendError) as caught:
        graph.execute({"xx": X})
    assert caught.value.number == 6004
    texts = [str(p) for p in caught.value.problems]
    assert any("did you mean 'x'?" in t for t in texts)
    assert "missing input 'x'" in texts
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": np.zeros((3, 2))})
    assert len(caught.value.problems) == 2  # shape and type
    with pytest.raises(BackendError, match="list"):
        graph.execute({"x": [[1, 2, 3], [4, 5, 6]]})  # type: ignore[dict-item]
    frozen = np.empty((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(BackendError, match="writable"):
        graph.execute({"x": X}, {"y": frozen})


def test_registered_memory_is_input_and_output(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    source, target = X.copy(), np.empty_like(X)
    x = graph.context.register_memory(source, DType.FLOAT_32)
    y = graph.context.register_memory(target, DType.FLOAT_32)
    for _ in range(2):
        graph.execute({"x": x}, {"y": y})
        np.testing.assert_array_equal(target, source * 2)
        source += 1
    with pytest.raises(BackendError, match="stored as uint8"):
        graph.context.register_memory(source, DType.UFIXED_POINT_8)


def test_a_failing_kernel_names_its_node_and_the_graph_survives(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Fail")
    with pytest.raises(BackendError, match="ArithmeticError: cannot") as caught:
        graph.execute({"x": X})
    assert "n1" in caught.value.where
    assert isinstance(caught.value.__cause__, ArithmeticError)


def test_async_gives_the_same_and_tells_the_end(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale")
    outputs = [out() for _ in range(5)]
    told: list[BaseException | None] = []
    runs = [graph.execute_async({"x": X + i}, outputs[i], notify=told.append) for i in range(5)]
    for i, run in enumerate(runs):
        assert run.wait(20)
        np.testing.assert_array_equal(outputs[i]["y"], (X + i) * 4)
    graph.context.free()  # waits for the notices too
    assert told == [None] * 5


def test_an_error_of_an_async_run_reaches_who_waits(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Fail")
    run = graph.execute_async({"x": X}, out())
    with pytest.raises(BackendError, match="cannot"):
        run.wait(20)
    assert run.done


def test_the_queue_has_its_depth(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait", async_execute_queue_depth=2)
    runs = [graph.execute_async({"x": X}, out()) for _ in range(2)]
    assert not runs[0].wait(0.01)
    with pytest.raises(BackendError) as caught:
        graph.execute_async({"x": X}, out())
    assert caught.value.number == 6025
    reference_backend.GATE.set()
    assert all(run.wait(20) for run in runs)
    assert graph.execute_async({"x": X}, out()).wait(20)


def test_higher_priorities_overtake(backend: runtime.Backend) -> None:
    gate = finalized(backend, "Wait")
    low, high = (finalized(backend, "Scale", context_priority=p) for p in ("low", "high"))
    gate.execute_async({"x": X}, out())
    assert reference_backend.ENTERED.wait(20)  # the queue's thread is busy from here
    order: list[str] = []
    runs = [
        graph.execute_async({"x": X}, out(), notify=lambda _, n=name: order.append(n))
        for graph, name in ((low, "low 1"), (low, "low 2"), (high, "high"))
    ]
    low.set_config({"graph_priority": "high"})
    runs.append(low.execute_async({"x": X}, out(), notify=lambda _: order.append("low, now high")))
    reference_backend.GATE.set()
    assert all(run.wait(20) for run in runs)
    assert order == ["high", "low, now high", "low 1", "low 2"]


def test_abort_ends_a_run_between_steps(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait", "Scale")
    signal = backend.create_signal()
    with pytest.raises(BackendError) as caught:
        signal.trigger()
    assert caught.value.number == 9001
    run = graph.execute_async({"x": X}, out(), signal=signal)
    assert reference_backend.ENTERED.wait(20)
    with pytest.raises(BackendError) as caught:
        signal.free()
    assert caught.value.number == 9000
    signal.trigger()
    reference_backend.GATE.set()
    with pytest.raises(BackendError) as caught:
        run.wait(20)
    assert caught.value.number == 6031
    np.testing.assert_array_equal(graph.execute({"x": X}, signal=signal)["y"], X * 2)


def test_a_timeout_ends_a_run(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait", "Scale")
    signal = backend.create_signal(SignalKind.TIMEOUT, timeout_us=1000)
    timer = threading.Timer(0.05, reference_backend.GATE.set)
    timer.start()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": X}, signal=signal)
    timer.join()
    assert caught.value.number == 6033
    with pytest.raises(BackendError) as caught:
        signal.trigger()
    assert caught.value.number == 9005
    for kind, limit in ((SignalKind.TIMEOUT, None), (SignalKind.ABORT, 5)):
        with pytest.raises(BackendError) as caught:
            backend.create_signal(kind, limit)
        assert caught.value.number == 9002


def test_profiles(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale")
    basic = backend.create_profile()
    graph.execute({"x": X}, profile=basic)
    (event,) = basic.events
    assert (event.type, event.identifier, event.children) == (EventType.EXECUTE, "net", ())
    assert event.value > 0
    detailed = backend.create_profile(ProfileLevel.DETAILED)
    graph.execute_async({"x": X}, out(), profile=detailed).wait(20)
    (event,) = detailed.events
    kinds = [child.type for child in event.children]
    assert kinds == [EventType.EXECUTE_QUEUE_WAIT, EventType.NODE, EventType.NODE]
    assert [child.identifier for child in event.children[1:]] == ["n0", "n1"]
    assert sum(child.value for child in event.children[1:]) <= event.value


def test_hooks_are_told_of_every_call_and_its_end(backend: runtime.Backend) -> None:
    recorder = Recorder()
    with hooks.registered(recorder):
        graph = finalized(backend, "Scale")
        with pytest.raises(BackendError):
            graph.execute({"x": X[:1]})
        graph.execute_async({"x": X}, out()).wait(20)
        graph.context.free()
    names = [call.function for what, call in recorder.events if what == "call"]
    assert names == [
        "context_create",
        "graph_create",
        "graph_create_tensor",
        "graph_create_tensor",
        "graph_add_node",
        "graph_finalize",
        "graph_execute",
        "graph_execute_async",
        "context_free",
    ]
    by_name = {c.function: c for what, c in recorder.events if what == "return"}
    assert isinstance(by_name["graph_execute"].error, BackendError)
    assert by_name["graph_create"].result is graph
    assert by_name["graph_add_node"].arguments["op_type"] == "Scale"
    assert by_name["graph_add_node"].owner is graph
    (end,) = (c for what, c in recorder.events if what == "complete")
    assert end.number == by_name["graph_execute_async"].number
    assert end.error is None
    assert not hooks.active


def test_hooks_are_told_of_nodes_only_in_watched_runs(backend: runtime.Backend) -> None:
    told: list[tuple[str, tuple[str, ...], list[float]]] = []

    class Nodes:
        @hookimpl
        def dovetail_node_executed(self, event: NodeExecuted) -> None:
            copies = [float(np.asarray(array).sum()) for array in event.outputs.values()]
            told.append((event.graph, event.nodes, copies))

    graph = finalized(backend, "Scale", "Scale")
    with hooks.registered(Nodes()):
        graph.execute({"x": X})
        assert told == []
        graph.execute({"x": X}, profile=backend.create_profile(ProfileLevel.DETAILED))
    assert told == [("net", ("n0",), [30.0]), ("net", ("n1",), [60.0])]


def test_a_tensor_for_both_passes_from_the_graph_that_writes_it(backend: runtime.Backend) -> None:
    context = backend.create_context()
    both, f32 = TensorKind.APP_READWRITE, DType.FLOAT_32
    writes, reads = context.create_graph("writes"), context.create_graph("reads")
    x = writes.create_tensor("x", f32, (2, 3), TensorKind.APP_WRITE)
    written = writes.create_tensor("state", f32, (2, 3), both)
    writes.add_node("n", "test.ops", "Scale", [x], [written])
    state = reads.create_tensor("state", f32, (2, 3), both)
    y = reads.create_tensor("y", f32, (2, 3), TensorKind.APP_READ)
    reads.add_node("n", "test.ops", "Scale", [state], [y])
    reads.create_tensor("unused", f32, (2, 3), both)
    for graph in (writes, reads):
        graph.finalize()
    buffer = {"state": np.full_like(X, np.nan)}
    assert writes.execute({"x": X}, buffer).keys() == {"state"}
    found = reads.execute({**buffer, "unused": X})
    assert found.keys() == {"y"}
    np.testing.assert_array_equal(found["y"], X * 4)
    with pytest.raises(BackendError, match="missing input 'state'"):
        reads.execute({"unused": X})


def test_one_graph_runs_from_many_threads(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale", "Scale")
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(graph.execute({"x": X + i})["y"], (X + i) * 8):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
