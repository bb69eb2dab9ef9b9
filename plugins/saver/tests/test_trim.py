"""`dovetail trace trim` keeps the chosen calls and what they depend on."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.errors import BackendError
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend, Context
from dovetail_saver.dependencies import Dependencies
from dovetail_saver.recording import Recorder
from dovetail_saver.trace import Trace

F32 = DType.FLOAT_32
X = np.array([1, -2, 3], np.float32)


def recorded(tmp_path: Path, session: Callable[[Context], None]) -> Path:
    with Recorder(tmp_path / "trace"), Backend.create("cpu") as backend:
        session(backend.create_context())
    return tmp_path / "trace"


def functions(trace: Path) -> list[str]:
    return [entry.record.function for entry in Trace(trace)]  # type: ignore[union-attr]


def test_a_chosen_execute_is_replayed_with_the_same_result(
    trace: Path, tmp_path: Path, dovetail: Any
) -> None:
    out = tmp_path / "out"
    done = dovetail("trace", "trim", trace, "--calls", "13", "--out", out, "--json")
    assert done.code == 0, done.err
    # of 17 calls, two executes, and the frees of the context and the backend are not needed
    assert done.data == {"trace": str(out), "calls": 17, "chosen": 1, "written": 13}
    replayed = dovetail("replay", out, "--compare", "exact", "--json")
    assert replayed.data["tensors"] == {"equal": 1}
    assert not list(tmp_path.glob(".out*"))


def test_updates_before_the_chosen_call_are_kept(tmp_path: Path, dovetail: Any) -> None:
    def session(context: Context) -> None:
        graph = context.create_graph("g")
        x = graph.create_tensor("x", F32, (3,), TensorKind.APP_WRITE)
        c = graph.create_tensor("c", F32, (3,), TensorKind.UPDATEABLE_STATIC, data=X)
        y = graph.create_tensor("y", F32, (3,), TensorKind.APP_READ)
        graph.add_node("add", "qti.aisw", "ElementWiseAdd", [x, c], [y])
        graph.finalize()
        for i in range(3):
            graph.execute({"x": X})
            graph.update_tensor(c, data=np.full(3, i, np.float32))
            graph.finalize()

    trace, out = recorded(tmp_path, session), tmp_path / "out"
    second = [i for i, name in enumerate(functions(trace)) if name == "graph_execute"][1]
    assert dovetail("trace", "trim", trace, "--calls", second, "--out", out).code == 0
    found = functions(out)
    assert found.count("graph_update_tensor") == 1
    assert found.count("graph_execute") == 1
    assert dovetail("replay", out, "--compare", "exact").code == 0


def test_executes_that_wrote_a_shared_tensor_are_kept(tmp_path: Path, dovetail: Any) -> None:
    def session(context: Context) -> None:
        state = context.create_tensor("state", F32, (3,), data=X)
        other = context.create_graph("other")
        a = other.create_tensor("a", F32, (3,), TensorKind.APP_WRITE)
        b = other.create_tensor("b", F32, (3,), TensorKind.APP_READ)
        other.add_node("relu", "qti.aisw", "Relu", [a], [b])
        other.finalize()
        graph = context.create_graph("g")
        x = graph.create_tensor("x", F32, (3,), TensorKind.APP_WRITE)
        y = graph.create_tensor("y", F32, (3,), TensorKind.APP_READ)
        graph.add_node("out", "qti.aisw", "ElementWiseAdd", [x, state], [y])
        graph.finalize()
        write = context.create_graph("write")
        z = write.create_tensor("z", F32, (3,), TensorKind.APP_WRITE)
        write.add_node("relu", "qti.aisw", "Relu", [z], [state])
        write.finalize()
        for i in range(3):
            other.execute({"a": X})
            write.execute({"z": X * i})
            graph.execute({"x": X})

    trace, out = recorded(tmp_path, session), tmp_path / "out"
    last = [i for i, name in enumerate(functions(trace)) if name == "graph_execute"][-1]
    assert dovetail("trace", "trim", trace, "--calls", last, "--out", out).code == 0
    found = functions(out)
    assert found.count("graph_execute") == 4  # three that wrote, and the last
    assert found.count("graph_create") == 2
    assert dovetail("replay", out, "--compare", "exact").code == 0


def test_events_need_the_executes_of_their_profile(tmp_path: Path, dovetail: Any) -> None:
    def session(context: Context) -> None:
        profile = context.backend.create_profile(1)
        graph = context.create_graph("g")
        x = graph.create_tensor("x", F32, (3,), TensorKind.APP_WRITE)
        y = graph.create_tensor("y", F32, (3,), TensorKind.APP_READ)
        graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
        graph.finalize()
        for each in (None, profile, profile):
            graph.execute({"x": X}, profile=each)
        profile.get_events()

    trace, out = recorded(tmp_path, session), tmp_path / "out"
    chosen = ("--calls", "profile_get_events", "--out")
    assert dovetail("trace", "trim", trace, *chosen, out).code == 0
    assert functions(out).count("graph_execute") == 2
    executes = [i for i, name in enumerate(functions(trace)) if name == "graph_execute"]
    last = tmp_path / "last"
    assert dovetail("trace", "trim", trace, "--calls", executes[-1], "--out", last).code == 0
    assert functions(last).count("graph_execute") == 1


def test_a_call_that_failed_keeps_what_may_have_been_the_reason(
    tmp_path: Path, dovetail: Any
) -> None:
    def session(context: Context) -> None:
        context.create_graph("other")
        context.create_graph("g")
        with pytest.raises(BackendError, match="taken"):
            context.create_graph("g")

    trace, out = recorded(tmp_path, session), tmp_path / "out"
    assert dovetail("trace", "trim", trace, "--calls", "4", "--out", out).code == 0
    assert functions(out).count("graph_create") == 3
    assert dovetail("replay", out, "--compare", "exact").code == 0


def test_a_used_folder_is_rejected(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    assert dovetail("trace", "trim", trace, "--calls", "3", "--out", tmp_path / "mine").code == 2
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["file"]


def test_many_failed_calls_take_memory_in_proportion(tmp_path: Path) -> None:
    count = 2000

    def session(context: Context) -> None:
        graph = context.create_graph("g")
        for _ in range(count):
            with pytest.raises(BackendError):
                graph.execute({})

    trace = Trace(recorded(tmp_path, session))
    dependencies = Dependencies(trace.entries(payloads=False))
    tracemalloc.start()
    try:
        kept = dependencies.closure(range(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept == set(range(count))
    assert peak < 1000 * count  # bytes
