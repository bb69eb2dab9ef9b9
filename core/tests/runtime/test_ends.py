"""How executions and handles end, whatever goes wrong: nothing is lost, nobody waits for ever."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import reference_backend
from hypothesis import given
from hypothesis import strategies as st
from reference_backend import OPS, PACKAGE, BareBackend, ReferenceBackend, chain, finalized, out

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ConfigError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import SignalKind, buffers

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@PACKAGE.op("Quit")
class Quit(Op):
    """Asks the process to end."""

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        raise SystemExit(3)


def test_a_failing_notify_harms_nobody(
    backend: runtime.Backend, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: BaseException | None) -> None:
        raise ValueError("in notify")

    graph = finalized(backend, "Scale")
    assert graph.execute_async({"x": X}, out(), notify=fail).wait(20)
    assert graph.execute_async({"x": X}, out()).wait(20)
    graph.context.free()
    assert "in notify" in caplog.text


def test_a_kernel_that_ends_the_process_is_an_error(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Quit", async_execute_queue_depth=1)
    for _ in range(2):  # the queue and its only place survive
        with pytest.raises(BackendError, match="SystemExit"):
            graph.execute_async({"x": X}, out()).wait(20)
    with pytest.raises(BackendError, match="SystemExit"):
        graph.execute({"x": X})


def test_a_refused_config_changes_nothing(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    graph.set_config({"graph_priority": "low"})
    with pytest.raises(ConfigError):
        graph.set_config({"graph_priority": "hihg"})
    assert graph.priority.name == "LOW"
    with pytest.raises(ConfigError):
        graph.context.create_graph("other", {"graph_priority": "hihg"})
    assert list(graph.context.graphs) == ["net"]
    assert graph.execute_async({"x": X}, out()).wait(20)


def test_priorities_need_the_capability() -> None:
    with runtime.Backend.create(BareBackend, ops=OPS) as backend:
        with pytest.raises(BackendError, match="'priority'"):
            backend.create_context(config={"context_priority": "high"})
        with pytest.raises(BackendError, match="'priority'"):
            backend.create_context().create_graph("g", {"graph_priority": "high"})


def test_a_used_signal_leaves_no_trace_of_the_refused_call(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait", async_execute_queue_depth=2)
    signal = backend.create_signal()
    run = graph.execute_async({"x": X}, out(), signal=signal)
    for _ in range(3):  # more often than there are places
        with pytest.raises(BackendError) as caught:
            graph.execute_async({"x": X}, out(), signal=signal)
        assert caught.value.number == 6030
    reference_backend.GATE.set()
    assert run.wait(20)


def test_no_thread_is_an_error_and_is_forgotten(
    backend: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = finalized(backend, "Scale", async_execute_queue_depth=1)

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(BackendError, match="cannot start a thread") as caught:
            graph.execute_async({"x": X}, out())
        assert caught.value.number == 1010
    assert graph.execute_async({"x": X}, out()).wait(20)


def test_signals_reach_executions_that_wait(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait")
    first = graph.execute_async({"x": X}, out())
    assert reference_backend.ENTERED.wait(20)
    abort = backend.create_signal()
    late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=1000)
    runs = [graph.execute_async({"x": X}, out(), signal=s) for s in (abort, late)]
    abort.trigger()
    threading.Event().wait(0.01)
    reference_backend.GATE.set()
    assert first.wait(20)
    for run, number in zip(runs, (6031, 6033), strict=True):
        with pytest.raises(BackendError) as caught:
            run.wait(20)
        assert caught.value.number == number


def test_a_limit_passed_in_the_last_step_counts(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait")
    timer = threading.Timer(0.05, reference_backend.GATE.set)
    timer.start()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": X}, signal=backend.create_signal(SignalKind.TIMEOUT, 1000))
    timer.join()
    assert caught.value.number == 6033


def test_free_waits_for_runs_in_other_threads(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Wait")
    result = out()
    runner = threading.Thread(target=graph.execute, args=({"x": X}, result))
    runner.start()
    assert reference_backend.ENTERED.wait(20)
    freer = threading.Thread(target=graph.context.free)
    freer.start()
    freer.join(0.05)
    assert freer.is_alive(), "a run is under way"
    with pytest.raises(BackendError, match="being freed"):
        graph.context.create_graph("late")
    with pytest.raises(BackendError, match="being freed"):
        graph.context.free()
    reference_backend.GATE.set()
    freer.join(20)
    runner.join(20)
    np.testing.assert_array_equal(result["y"], X)
    assert graph.is_freed
    assert graph.context.is_freed


def test_notify_may_free_the_context_unless_others_wait(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    freed = threading.Event()

    def free(error: BaseException | None) -> None:
        graph.context.free()
        freed.set()

    graph.execute_async({"x": X}, out(), notify=free)
    assert freed.wait(20)
    assert graph.is_freed
    busy = finalized(backend, "Wait")
    refused: list[str] = []

    def try_free(error: BaseException | None) -> None:
        try:
            busy.context.free()
        except BackendError as failure:
            refused.append(failure.code)

    first = busy.execute_async({"x": X}, out(), notify=try_free)
    second = busy.execute_async({"x": X}, out())
    reference_backend.GATE.set()
    assert first.wait(20)
    assert second.wait(20)
    busy.context.free()
    assert refused == ["COMMON_ERROR_OPERATION_NOT_PERMITTED"]


def test_the_end_of_a_run_is_told_before_its_context_is_freed(backend: runtime.Backend) -> None:
    order: list[str] = []

    class Order:
        @hookimpl
        def dovetail_api_return(self, call: ApiCall) -> None:
            order.append(call.function)

        @hookimpl
        def dovetail_api_complete(self, call: ApiCall) -> None:
            threading.Event().wait(0.02)
            order.append("complete")

    graph = finalized(backend, "Scale")
    with hooks.registered(Order()):
        graph.execute_async({"x": X}, out())
        graph.context.free()
    assert order == ["graph_execute_async", "complete", "context_free"]


def test_one_thread_finalizes_and_nothing_changes_meanwhile(backend: runtime.Backend) -> None:
    context = backend.create_context()
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    (graph,) = context.compose(model)
    entered, go, prepare = threading.Event(), threading.Event(), backend.plugin.prepare
    made: list[object] = []

    def slow(*args: object) -> object:
        entered.set()
        go.wait(20)
        made.append(prepare(*args))  # type: ignore[arg-type]
        return made[-1]

    backend.plugin.prepare = slow  # type: ignore[method-assign, assignment]
    first = threading.Thread(target=graph.finalize)
    first.start()
    assert entered.wait(20)
    for change in (graph.finalize, lambda: graph.create_tensor("z", DType.FLOAT_32, (1,))):
        with pytest.raises(BackendError, match="is being finalized") as caught:
            change()
        assert caught.value.number == 6024
    go.set()
    first.join(20)
    assert graph.is_finalized
    assert len(made) == 1


def test_a_dead_profile_is_refused_before_anything_happens(backend: runtime.Backend) -> None:
    context = backend.create_context()
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    (graph,) = context.compose(model)
    profile = backend.create_profile()
    profile.free()
    with pytest.raises(BackendError, match="freed"):
        graph.finalize(profile)
    assert not graph.is_finalized


def test_a_device_of_another_backend_is_refused(backend: runtime.Backend) -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as other:
        device = other.create_device()
        with pytest.raises(BackendError) as caught:
            backend.create_context(device)
        assert caught.value.number == 5000


def test_what_is_owned_dies_with_its_owner() -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        context = backend.create_context()
        memory = context.register_memory(X.copy(), DType.FLOAT_32)
        owned = [backend.create_device(), backend.create_profile(), backend.create_signal()]
        context.free()
        assert memory.is_freed
        assert not any(handle.is_freed for handle in owned)
    assert all(handle.is_freed for handle in owned)


def test_buffers_that_share_memory_are_refused(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    block = np.zeros(9, np.float32)
    first, second = block[:6].reshape(2, 3), block[3:].reshape(2, 3)
    for read, written in ((first, first), (first, second)):
        with pytest.raises(BackendError, match="shares memory with input 'x'") as caught:
            graph.execute({"x": read}, {"y": written})
        assert caught.value.number == 6004


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), min_size=2, max_size=12))
def test_sorted_buffers_share_memory_where_pairs_do(spans: list[tuple[int, int]]) -> None:
    block = np.zeros(70, np.int8)
    named: dict[str, Array] = {f"b{i}": block[a : a + n] for i, (a, n) in enumerate(spans)}
    named["again"] = named["b0"]
    read = {name: named[name] for name in list(named)[: len(named) // 3]}
    written = {name: array for name, array in named.items() if name not in read}
    pairs = buffers._overlaps(read, written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "_MOST_COMPARED", 0)
        assert buffers._overlaps(read, written) == pairs


def test_array_subclasses_compute_as_arrays(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale", "Scale")
    masked = np.ma.masked_array(X, mask=X > 2)
    result = graph.execute({"x": masked})["y"]
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, X * 4)


def test_free_does_not_wait_for_an_interrupted_run_of_its_own_thread(
    backend: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = finalized(backend, "Scale")

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    def run_and_free() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(graph.context.executions, "leave", interrupted)
            with pytest.raises(KeyboardInterrupt):
                graph.execute({"x": X})
        graph.context.free()

    thread = threading.Thread(target=run_and_free, daemon=True)
    thread.start()
    thread.join(10)
    assert graph.context.is_freed
