"""What the small backends of the helpers show: settings, opaque nodes, spaces, overlap, blobs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import fake_device
import msgspec
import numpy as np
import pytest
import trial_ops
from choosy_backend import ChoosyBackend
from recording_backend import RecordingBackend, Tape
from reference_backend import ReferenceBackend, finalized
from spaced_backend import SpacedBackend, SpacedContext, SpacedPrepared
from trial_ops import OPS, chain, out

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ConfigError, OpError, UnsupportedOpError
from dovetail.ir import DType, Graph, Node, Scalar, Tensor, TensorKind
from dovetail.ops import Observed
from dovetail.runtime import SignalKind
from dovetail.runtime.compatibility import judge

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HELPERS = Path(trial_ops.__file__).parent


def create(plugin: Any) -> runtime.Backend:
    return runtime.Backend.create(plugin, ops=OPS)


def composed(context: runtime.Context, graph: Graph) -> runtime.Graph:
    (made,) = context.compose(Model({graph.name: graph}, Producer("test", "1"), {}))
    return made


@pytest.mark.parametrize("kind", ["null", "reference", "choosy", "spaced", "recording", "foreign"])
def test_they_stay_small(kind: str) -> None:
    lines = (HELPERS / f"{kind}_backend.py").read_text("utf-8").splitlines()
    assert len(lines) <= (85 if kind == "null" else 125)


# -- settings ------------------------------------------------------------------------------------


def test_settings_of_devices_and_graphs_change_verdicts() -> None:
    with create(ChoosyBackend) as backend:
        wide = Node("n", "test.ops", "Scale", [Tensor("x", DType.FLOAT_32, (9, 9))], [])
        wide.outputs = (Tensor("y", DType.FLOAT_32, (9, 9)),)
        small = backend.create_device({"soc": "small"})
        assert backend.validate_op(wide).ok
        assert backend.validate_op(wide, small).allowed == ("64 elements",)
        wait = chain("Wait").nodes[0]
        assert backend.validate_op(wait, config={"precision": "exact"}).ok
        assert backend.validate_op(wait, config={"precision": "fast"}).rule == "exact-only"
        with create(ChoosyBackend) as other, pytest.raises(BackendError, match="belongs to"):
            other.validate_op(wait, small)
        facts = [backend.plugin.fingerprint(d.config) for d in (small, backend.host)]
        found = judge(facts[0].facts, facts[1].facts)
        assert [reason.fact for reason in found.reasons] == ["soc"]


def test_a_graph_is_judged_and_prepared_with_its_own_settings(gate: threading.Event) -> None:
    gate.set()
    with create(ChoosyBackend) as backend, backend.create_context() as context:
        graph = composed(context, chain("Wait"))
        graph.set_config({"precision": "fast"})
        with pytest.raises(UnsupportedOpError, match="exact-only"):
            graph.finalize()
        graph.set_config({"precision": "exact"})
        graph.finalize()
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X)
        fast = context.create_graph("fast", {"precision": "fast"})
        assert fast.config.precision == "fast"  # type: ignore[attr-defined]
        for call, wanted in (
            (lambda: context.create_graph("g", {"precsion": "fast"}), "did you mean 'precision'"),
            (lambda: context.create_graph("g", {"precision": "slow"}), "graph 'g'"),
            (lambda: backend.create_device({"soc": "huge"}), "device config"),
            (lambda: backend.create_context(config={"graphs": "many"}), "context config"),
        ):
            with pytest.raises(ConfigError) as caught:
                call()
            assert wanted in str(caught.value)


def test_a_context_has_its_own_settings_and_survives_a_failure() -> None:
    with create(ChoosyBackend) as backend:
        context = backend.create_context(config={"graphs": 1})
        first, second = (composed(context, chain("Scale", name=n)) for n in ("first", "second"))
        first.finalize()
        with pytest.raises(BackendError, match="no room for graph second") as caught:
            second.finalize()
        assert caught.value.code == "CONTEXT_ERROR_MEM_ALLOC"
        assert not second.is_finalized
        np.testing.assert_array_equal(first.execute({"x": X})["y"], X * 2)
        composed(backend.create_context(), chain("Scale")).finalize()  # has room of its own


# -- opaque nodes --------------------------------------------------------------------------------


def foreign_graph() -> Graph:
    """x -> unheard.of::Blur -> t -> Scale -> y."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    t = graph.add_tensor(Tensor("t", DType.FLOAT_32, (2, 3)))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ))
    radius = {"radius": Scalar(DType.INT_32, 3)}
    graph.add_node(Node("blur", "unheard.of", "Blur", [x, None], [t], radius))
    graph.add_node(Node("scale", "test.ops", "Scale", [t], [y]))
    return graph


def test_nodes_of_packages_that_are_not_installed_are_recorded() -> None:
    with create(RecordingBackend) as backend:
        context = backend.create_context()
        graph = composed(context, foreign_graph())
        assert backend.validate_op(graph.ir.nodes[0]).ok
        graph.finalize()
        assert not graph.execute({"x": X})["y"].any()
        tape = context.plugin
        context.free()
    assert isinstance(tape, Tape)
    blur, scale, run, *closed = tape.lines
    assert (blur["op"], blur["is_opaque"]) == ("unheard.of::Blur", True)
    assert (blur["ins"], blur["params"]) == (["FLOAT_32 [2, 3]", None], {"radius": 3})
    assert (scale["op"], scale["is_opaque"]) == ("test.ops::Scale", False)
    assert bytes.fromhex(run["bytes"]["x"]) == X.tobytes()
    assert closed == [{"close": "net"}, {"close": ""}]


def test_a_node_of_an_installed_package_is_never_opaque() -> None:
    graph = foreign_graph()
    graph.nodes[1].op_type = "Scal"
    with create(RecordingBackend) as backend:
        context = backend.create_context()
        with pytest.raises(UnsupportedOpError, match="op 'Scal' not found"):
            composed(context, graph)
        assert not context.graphs
        with pytest.raises(OpError, match="op 'Scal' not found"):
            backend.validate_op(graph.nodes[1])


def test_opaque_nodes_need_the_capability() -> None:
    with create(ReferenceBackend) as backend:
        with pytest.raises(UnsupportedOpError, match=r"unheard\.of"):
            composed(backend.create_context(), foreign_graph())
        with pytest.raises(OpError, match=r"unheard\.of"):
            backend.validate_op(foreign_graph().nodes[0])


# -- a space of its own, and overlap ------------------------------------------------------------


def space(context: runtime.Context) -> fake_device.FakeDevice:
    assert isinstance(context.plugin, SpacedContext)
    return context.plugin.space


def test_runs_overlap_and_end_in_the_devices_thread(gate: threading.Event) -> None:
    with create(SpacedBackend) as backend:
        graph = finalized(backend, "Wait", "Scale")
        threads: list[str] = []
        outputs = [out() for _ in range(3)]
        runs = [
            graph.execute_async(
                {"x": X + i}, o, notify=lambda _: threads.append(threading.current_thread().name)
            )
            for i, o in enumerate(outputs)
        ]
        assert trial_ops.ENTERED.wait(20)
        assert not any(run.done for run in runs)
        gate.set()
        for i, run in enumerate(runs):
            assert run.wait(20)
            np.testing.assert_array_equal(outputs[i]["y"], (X + i) * 2)
        graph.context.free()
        assert threads == ["device"] * 3
        assert not space(graph.context).live


def test_an_update_waits_for_overlapped_runs(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = msgspec.structs.replace(SpacedBackend.capabilities(None), updates=True)  # type: ignore[arg-type]
    monkeypatch.setattr(SpacedBackend, "capabilities", lambda self: able)
    updated = threading.Event()
    monkeypatch.setattr(SpacedPrepared, "update", lambda self, tensors: updated.set())
    with create(SpacedBackend) as backend:
        graph = backend.create_context().create_graph("net")
        x, w, y = (
            graph.create_tensor(n, DType.FLOAT_32, (2, 3), kind, data=data)
            for n, kind, data in (
                ("x", TensorKind.APP_WRITE, None),
                ("w", TensorKind.UPDATEABLE_STATIC, X),
                ("y", TensorKind.APP_READ, None),
            )
        )
        z = graph.create_tensor("z", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
        graph.add_node("wait", "test.ops", "Wait", [x], [y])
        graph.add_node("scale", "test.ops", "Scale", [w], [z])
        graph.finalize()
        run = graph.execute_async({"x": X}, {"y": X.copy(), "z": X.copy()})
        assert trial_ops.ENTERED.wait(20)
        graph.update_tensor(w, X + 1)
        finalizing = threading.Thread(target=graph.finalize)
        finalizing.start()
        assert not updated.wait(0.05), "a run is under way"
        gate.set()
        finalizing.join(20)
        assert run.wait(20)
        assert updated.is_set()
        assert graph.is_finalized


def test_free_waits_for_overlapped_runs(gate: threading.Event) -> None:
    with create(SpacedBackend) as backend:
        graph, result = finalized(backend, "Wait"), out()
        graph.execute_async({"x": X}, result)
        assert trial_ops.ENTERED.wait(20)
        freer = threading.Thread(target=graph.context.free)
        freer.start()
        freer.join(0.05)
        assert freer.is_alive(), "a run is under way"
        gate.set()
        freer.join(20)
        np.testing.assert_array_equal(result["y"], X)


def test_memory_of_the_device_is_input_and_output() -> None:
    with create(SpacedBackend) as backend:
        graph = finalized(backend, "Scale")
        context, device = graph.context, space(graph.context)
        blocks = [device.upload(X), device.upload(np.zeros_like(X))]
        x, y = (
            context.register_memory(None, DType.FLOAT_32, (2, 3), {"block": block})
            for block in blocks
        )
        graph.execute({"x": x}, {"y": y})
        spec = graph.outputs[0].spec
        np.testing.assert_array_equal(blocks[1].download(spec), X * 2)
        wide = context.register_memory(None, DType.FLOAT_32, (3, 3), {"block": device.upload(X)})
        with pytest.raises(BackendError, match="expected FLOAT_32") as caught:
            graph.execute({"x": wide}, {"y": y})
        assert caught.value.code == "GRAPH_ERROR_INVALID_TENSOR"
        with pytest.raises(BackendError, match="memory outside the host's"):
            context.register_memory(None, DType.FLOAT_32, (2, 3), {"blok": 1})
        x.deregister()
        assert blocks[0] not in device.live
        del y, wide  # the application forgets them, and the context releases them
        context.free()
        assert not device.live


def test_deregistered_memory_lives_until_its_run_has_ended(gate: threading.Event) -> None:
    with create(SpacedBackend) as backend:
        graph = finalized(backend, "Wait")
        device, result = space(graph.context), out()
        block = device.upload(X)
        memory = graph.context.register_memory(None, DType.FLOAT_32, (2, 3), {"block": block})
        run = graph.execute_async({"x": memory}, result)
        assert trial_ops.ENTERED.wait(20)
        memory.deregister()
        assert block in device.live
        with pytest.raises(BackendError, match="was freed"):
            graph.execute({"x": memory})
        gate.set()
        assert run.wait(20)
        np.testing.assert_array_equal(result["y"], X)
        graph.context.free()
        assert not device.live


def test_an_error_of_an_overlapped_run_reaches_who_waits() -> None:
    with create(SpacedBackend) as backend:
        graph = finalized(backend, "Fail")
        with pytest.raises(BackendError, match="cannot"):
            graph.execute_async({"x": X}, out()).wait(20)
        late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
        run = finalized(backend, "Scale").execute_async({"x": X}, out(), signal=late)
        with pytest.raises(BackendError, match="timeout"):
            run.wait(20)


def test_a_run_ends_once_however_often_the_backend_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def submit(self: object, inputs: object, outputs: object, control: object, done: Any) -> None:
        done(None)
        done(BackendError("again"))
        raise RuntimeError("and again")

    monkeypatch.setattr(SpacedPrepared, "submit", submit)
    with create(SpacedBackend) as backend:
        graph = finalized(backend, "Scale")
        told: list[object] = []
        assert graph.execute_async({"x": X}, out(), notify=told.append).wait(20)
        graph.context.free()
    assert told == [None]
    deadline = time.monotonic() + 20  # the queue's thread logs after the run has ended
    while "and again" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.001)
    assert caplog.text.count("ended twice") == 2


# -- preparing -----------------------------------------------------------------------------------


def test_a_stopped_preparation_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(SpacedPrepared, "close", lambda self: closed.append(self))
    with create(SpacedBackend) as backend:
        graph = composed(backend.create_context(), chain("Scale"))
        late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
        with pytest.raises(BackendError) as caught:
            graph.finalize(signal=late)
        assert caught.value.code == "GRAPH_ERROR_TIMED_OUT"
        assert not graph.is_finalized
        graph.finalize()
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2)
        assert not closed


def test_a_preparation_that_ends_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(SpacedPrepared, "close", lambda self: closed.append(self))
    real = SpacedBackend.prepare
    with create(SpacedBackend) as backend:
        signal = backend.create_signal()

        def prepare(*args: Any) -> object:
            made = real(*args)
            signal.trigger()
            return made

        monkeypatch.setattr(SpacedBackend, "prepare", prepare)
        graph = composed(backend.create_context(), chain("Scale"))
        with pytest.raises(BackendError, match="aborted"):
            graph.finalize(signal=signal)
        assert len(closed) == 1


def test_free_waits_for_a_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go = threading.Event(), threading.Event()
    real = SpacedBackend.prepare

    def prepare(*args: Any) -> object:
        entered.set()
        assert go.wait(20)
        return real(*args)

    monkeypatch.setattr(SpacedBackend, "prepare", prepare)
    with create(SpacedBackend) as backend:
        graph = composed(backend.create_context(), chain("Scale"))
        preparing, freeing = (
            threading.Thread(target=call) for call in (graph.finalize, graph.context.free)
        )
        preparing.start()
        assert entered.wait(20)
        freeing.start()
        freeing.join(0.05)
        assert freeing.is_alive()
        go.set()
        freeing.join(20)
        preparing.join(20)
        assert graph.is_freed
        assert not space(graph.context).live


def test_an_interrupted_free_can_be_repeated(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(ReferenceBackend) as backend:
        graph = finalized(backend, "Wait")
        graph.execute_async({"x": X}, out())

        def interrupted(*args: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(graph.context.executions._changed, "wait_for", interrupted)
            with pytest.raises(KeyboardInterrupt):
                graph.context.free()
        gate.set()
        graph.execute({"x": X})  # the context still works
        graph.context.free()
        assert graph.is_freed


def test_observed_tensors_need_a_watch() -> None:
    with create(SpacedBackend) as backend:
        graph = composed(backend.create_context(), chain("Scale", "Scale"))
        with pytest.raises(BackendError) as caught:
            graph.finalize(observed=Observed(frozenset({"t0"})))
        assert caught.value.code == "GRAPH_ERROR_UNSUPPORTED_FEATURE"
        graph.finalize()
