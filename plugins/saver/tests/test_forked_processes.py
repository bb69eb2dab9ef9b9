"""Processes that are forked have traces of their own, which replay without those of others."""

from pathlib import Path

import numpy as np
import pytest
from recorded import SESSION_CALLS, Program

from dovetail.runtime.calls import CallRecord, differences
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace
from dovetail_saver.verifying import verify

# The parent's session, and a process that is forked; the child's folder is printed.
FORKING = """
import os, sys
backend = Backend.create({backend})
context = backend.create_context()
graph = context.create_graph("g")
x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
c = graph.create_tensor(
    "c", DType.FLOAT_32, (2, 3), TensorKind.STATIC, data=np.full((2, 3), 7, np.float32)
)
y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
graph.add_node("add", "qti.aisw", "ElementWiseAdd", [x, c], [y])
graph.finalize()
graph.execute({{"x": np.full((2, 3), 1, np.float32)}})

def forked(work):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print(child)
        return
    work()
    sys.stdout.flush()
    os._exit(0)

def execute(value=2):
    graph.execute({{"x": np.full((2, 3), value, np.float32)}})

{rest}
context.free()
backend.free()
"""
PARENT_CALLS = 9  # up to the fork


def fork(program: Program, rest: str, backend: str = "'cpu'", folder: str = "trace") -> list[Path]:
    """Run a program that forks, and return the folders of its traces, the parent's first."""
    text = FORKING.format(backend=backend, rest=rest)
    done = program(text, **({"DOVETAIL_RECORD": folder} if backend == "'cpu'" else {}))
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return [Path(folder), *(Path(folder) / f"process-{pid}" for pid in done.stdout.split())]


def functions(folder: Path) -> list[str]:
    found = [entry.record for entry in Trace(folder)]
    assert len({record.number for record in found}) == len(found)
    return [record.function for record in found if isinstance(record, CallRecord)]


def replays_exactly(folder: Path) -> None:
    verify(folder)
    found = [differences(played) for played in replay(Trace(folder))]
    assert found == [()] * len(functions(folder))


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_child_that_uses_its_parents_session(program: Program) -> None:
    parent, child = fork(program, "forked(execute); execute(3)")
    assert functions(parent)[PARENT_CALLS:] == ["graph_execute", "context_free", "backend_free"]
    assert functions(child) == [*functions(parent)[:PARENT_CALLS], "graph_execute"]
    assert Trace(child).header.backends == ("cpu",)
    for folder in (parent, child):
        replays_exactly(folder)


def test_a_child_with_sessions_of_its_own_has_these_alone(program: Program) -> None:
    _, child = fork(program, "forked(session)")
    assert len(functions(child)) == SESSION_CALLS
    assert np.full((2, 3), 7, np.float32).tobytes() not in (child / "params.bin").read_bytes()
    replays_exactly(child)


def test_a_child_that_uses_its_parents_session_after_its_own(program: Program) -> None:
    _, child = fork(program, "forked(lambda: (session(2), execute()))")
    found = functions(child)
    assert len(found) == SESSION_CALLS + 1 + PARENT_CALLS + 1
    assert found.count("graph_execute") == 2 + 1 + 1
    replays_exactly(child)


def test_a_handle_of_the_parent_as_an_argument(program: Program) -> None:
    rest = """
def wrong():
    with Backend.create("cpu") as own:
        try:
            own.create_context().create_graph("h").add_node("n", "qti.aisw", "Relu", [x], [y])
        except Exception as error:
            assert "tensor" in str(error), error
        else:
            os._exit(1)

forked(wrong)
"""
    _, child = fork(program, rest)
    assert "graph_add_node" in functions(child)[PARENT_CALLS:]
    replays_exactly(child)


@pytest.mark.parametrize("middle", ["", "execute(); "], ids=["silent", "recording"])
def test_a_grandchild(program: Program, middle: str) -> None:
    rest = f"""
def child():
    {middle}forked(lambda: execute(4))

forked(child)
"""
    parent, grandchild, child = fork(program, rest)
    assert len(functions(parent)) == PARENT_CALLS + 2
    assert (Path(child) / "calls.jsonl").exists() is bool(middle)
    assert len(functions(grandchild)) == PARENT_CALLS + bool(middle) + 1
    replays_exactly(grandchild)


def test_a_parent_whose_trace_cannot_be_read(program: Program) -> None:
    rest = """
import logging
logging.disable()

def child():
    os.unlink("trace/trace.json")
    execute()
    print("goes on", end=" ")

forked(child)
"""
    text = FORKING.format(backend="'cpu'", rest=rest)
    done = program(text, DOVETAIL_RECORD="trace")
    assert done.returncode == 0
    goes, on, child = done.stdout.split()
    assert (goes, on) == ("goes", "on")
    trace = Trace(Path("trace") / f"process-{child}")
    assert list(trace) == []
    assert trace.mark is not None
    assert "uses handles of the process that forked it" in trace.mark.reason
    assert "trace.json" in trace.mark.reason


def test_a_forked_saver(program: Program) -> None:
    parent, child = fork(program, "forked(execute)", "'saver', {'output': 'saved'}", "saved")
    assert functions(child) == [*functions(parent)[:PARENT_CALLS], "graph_execute"]
    for folder in (parent, child):
        verify(folder)
        assert len(list(replay(Trace(folder)))) == len(functions(folder))
