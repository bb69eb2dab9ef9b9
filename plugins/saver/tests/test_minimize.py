"""`dovetail trace minimize` finds the smallest trace that still fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_backend import FAULT

import dovetail as dt
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend, Context, Graph
from dovetail_saver.minimizing import Verdict, minimize
from dovetail_saver.replay import Request, Retarget, Session
from dovetail_saver.trace import Trace

F32 = DType.FLOAT_32
SHAPE = (4,)
# backend, context, graph, input, output, node, finalize, execute
ONE_NODE = 8


def chain(context: Context, name: str, ops: list[str], **config: Any) -> Graph:
    """Return a finalized graph of ops one after another; `+` adds a constant."""
    graph = context.create_graph(name, config or None)
    last = graph.create_tensor("x", F32, SHAPE, TensorKind.APP_WRITE)
    for i, op in enumerate(ops):
        kind = TensorKind.APP_READ if i == len(ops) - 1 else TensorKind.NATIVE
        out = graph.create_tensor(f"t{i}", F32, SHAPE, kind)
        inputs = [last]
        if op == "+":
            data = np.full(SHAPE, i, np.float32)
            inputs.append(graph.create_tensor(f"c{i}", F32, SHAPE, TensorKind.STATIC, data=data))
        graph.add_node(f"n{i}", "qti.aisw", "ElementWiseAdd" if op == "+" else op, inputs, [out])
        last = out
    graph.finalize()
    return graph


def given(i: int) -> dict[str, Any]:
    return {"x": np.arange(4, dtype=np.float32) - i}


def record(folder: Path, session: Callable[[Context], None]) -> Path:
    with dt.record(folder), Backend.create("cpu") as backend:
        session(backend.create_context())
    return folder


LONG = ["Sigmoid", "+", "Relu", "Sigmoid", "+", "ElementWiseSquareRoot", "Tanh", "+", "Sigmoid"]


def several_graphs(context: Context) -> None:
    graphs = [chain(context, f"g{i}", LONG[i:]) for i in range(4)]
    for i in range(10):
        for graph in graphs:
            graph.execute(given(i))


def with_profiles(context: Context) -> None:
    profile = context.backend.create_profile(1)
    graph = chain(context, "g", LONG, graph_priority="high")
    for i in range(20):
        graph.execute(given(i), profile=profile)
        profile.get_events()


def asynchronous(context: Context) -> None:
    graph = chain(context, "g", LONG)
    for i in range(10):
        graph.execute_async(given(i), {f"t{len(LONG) - 1}": np.zeros(SHAPE, np.float32)}).wait()


def with_updates(context: Context) -> None:
    graph = context.create_graph("g")
    x = graph.create_tensor("x", F32, SHAPE, TensorKind.APP_WRITE)
    c = graph.create_tensor("c", F32, SHAPE, TensorKind.UPDATEABLE_STATIC, data=given(0)["x"])
    a = graph.create_tensor("a", F32, SHAPE, TensorKind.NATIVE)
    b = graph.create_tensor("b", F32, SHAPE, TensorKind.NATIVE)
    y = graph.create_tensor("y", F32, SHAPE, TensorKind.APP_READ)
    graph.add_node("add", "qti.aisw", "ElementWiseAdd", [x, c], [a])
    graph.add_node("relu", "qti.aisw", "Relu", [a], [b])
    graph.add_node("tanh", "qti.aisw", "Tanh", [b], [y])
    graph.finalize()
    for i in range(8):
        graph.execute(given(i))
        graph.update_tensor(c, data=given(i)["x"])
        graph.finalize()


def with_state(context: Context) -> None:
    state = context.create_tensor("state", F32, SHAPE, data=given(1)["x"])
    write = context.create_graph("write")
    z = write.create_tensor("z", F32, SHAPE, TensorKind.APP_WRITE)
    write.add_node("sigmoid", "qti.aisw", "Sigmoid", [z], [state])
    write.finalize()
    read = context.create_graph("read")
    a = read.create_tensor("a", F32, SHAPE, TensorKind.NATIVE)
    y = read.create_tensor("y", F32, SHAPE, TensorKind.APP_READ)
    read.add_node("tanh", "qti.aisw", "Tanh", [state], [a])
    read.add_node("relu", "qti.aisw", "Relu", [a], [y])
    read.finalize()
    for i in range(6):
        write.execute({"z": given(i)["x"]})
        read.execute({})


@dataclass(frozen=True)
class Fault:
    """A planted fault, and the number of calls of the smallest trace that shows it."""

    session: Callable[[Context], None]
    calls: int
    op: str = ""  # that the backend `faulty` gets wrong
    ops: tuple[str, ...] = ()  # that must follow each other
    value: float | None = None  # that an input must have
    function: str = ""  # that must be called
    times: int = 1

    def __call__(self, trace: Path) -> Verdict:
        if self.op and not fails_on_faulty(trace):
            return Verdict.GOOD
        found = Trace(trace)
        records = [entry.record for entry in found]
        if self.ops and not follows(records, self.ops):
            return Verdict.GOOD
        if self.value is not None and not has_input(found, records, self.value):
            return Verdict.GOOD
        if self.function:
            count = sum(getattr(r, "function", "") == self.function for r in records)
            return Verdict.BAD if count >= self.times else Verdict.GOOD
        return Verdict.BAD


def fails_on_faulty(trace: Path) -> bool:
    report = Session(trace, Request(retarget=lambda: Retarget("faulty"), compare=True)).run()
    assert not report.differences, report.differences  # every candidate is a valid session
    return report.failures > 0


def follows(records: list[Any], ops: tuple[str, ...]) -> bool:
    """Return whether nodes of some types follow each other in an executed graph."""
    import json

    after: dict[int, str] = {}
    executed = {r.owner for r in records if getattr(r, "function", "").startswith("graph_execute")}
    for record in records:
        if getattr(record, "function", "") == "graph_add_node" and record.owner in executed:
            arguments = json.loads(bytes(record.arguments))
            before = max((after.get(h, "") for h in arguments["inputs"]), key=len, default="")
            path = f"{before}>{arguments['op_type']}"
            if path.endswith(">".join(ops)):
                return True
            after[arguments["outputs"][0]] = path
    return False


def has_input(trace: Trace, records: list[Any], value: float) -> bool:
    for record in records:
        if getattr(record, "function", "").startswith("graph_execute"):
            for key in record.payloads:
                blob = trace.payloads.get(key)
                if blob is not None and value in blob.bytes.view(np.float32):
                    return True
    return False


FAULTS = {
    "relu": Fault(several_graphs, ONE_NODE, op="Relu"),
    "tanh": Fault(several_graphs, ONE_NODE, op="Tanh"),
    "relu of one graph": Fault(with_profiles, ONE_NODE, op="Relu"),
    "tanh of one graph": Fault(with_profiles, ONE_NODE, op="Tanh"),
    "relu async": Fault(asynchronous, ONE_NODE, op="Relu"),
    "tanh async": Fault(asynchronous, ONE_NODE, op="Tanh"),
    "relu of updated": Fault(with_updates, ONE_NODE, op="Relu"),
    "tanh of updated": Fault(with_updates, ONE_NODE, op="Tanh"),
    "relu after state": Fault(with_state, ONE_NODE, op="Relu"),
    # the context tensor instead of an input
    "tanh of state": Fault(with_state, ONE_NODE, op="Tanh"),
    # two nodes, and the tensor between them
    "pair": Fault(several_graphs, ONE_NODE + 2, ops=("Tanh", "ElementWiseAdd")),
    "other pair": Fault(with_profiles, ONE_NODE + 2, ops=("Relu", "Sigmoid")),
    "three": Fault(several_graphs, ONE_NODE + 4, ops=("Relu", "Sigmoid", "ElementWiseAdd")),
    "pair async": Fault(
        asynchronous, ONE_NODE + 2, ops=("ElementWiseAdd", "ElementWiseSquareRoot")
    ),
    "op and value": Fault(with_profiles, ONE_NODE, op="Relu", value=-19.0),
    "value": Fault(several_graphs, ONE_NODE, value=-9.0),
    "profile": Fault(with_profiles, 1 + 1 + 1, function="profile_get_events"),
    "two executes": Fault(several_graphs, ONE_NODE + 1, function="graph_execute", times=2),
    # what is updated, the update, and what finalizes it again are in no other way there
    "update": Fault(with_updates, 5, function="graph_update_tensor"),
    "two graphs": Fault(several_graphs, 4, function="graph_create", times=2),
}


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_reduced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    monkeypatch.setenv(FAULT, fault.op)
    trace = record(tmp_path / "trace", fault.session)
    found = minimize(trace, tmp_path / "out", fault)
    assert fault(tmp_path / "out") is Verdict.BAD
    assert found.after <= 1.2 * fault.calls, found
    assert found.after == Trace(tmp_path / "out").count()


@dataclass(frozen=True)
class Command:
    """A check in a file: exits with a code if the trace has a text, else with 0."""

    script: Path

    def __call__(self, text: str, code: int) -> str:
        self.script.write_text(
            "import sys\n"
            "text = open(sys.argv[1] + '/calls.jsonl').read()\n"
            f"sys.exit({code} if {text!r} in text else 0)\n"
        )
        return f"{sys.executable} {self.script}"


def test_commands_check_with_exit_codes(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    command, out = Command(tmp_path / "check.py"), tmp_path / "out"
    minimized = ("trace", "minimize", trace, "--json", "--out", out, "--check")
    done = dovetail(*minimized, command("context_create", 1) + " {}")
    assert done.code == 0, done.err
    assert (done.data["before"], done.data["after"]) == (17, 2)
    assert dovetail("trace", "verify", out).code == 0
    assert dovetail(*minimized, "no-such-program").code == 3  # the folder is in use


@pytest.mark.parametrize("code", [0, 125, 130])
def test_codes_that_are_not_bad_are_usage_errors(
    trace: Path, tmp_path: Path, dovetail: Any, code: int
) -> None:
    command, out = Command(tmp_path / "check.py")("call", code), tmp_path / "out"
    assert dovetail("trace", "minimize", trace, "--out", out, "--check", command).code == 2
    assert not out.exists()
    assert dovetail("trace", "minimize", trace, "--out", out, "--check", "no-such").code == 2
