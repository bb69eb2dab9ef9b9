"""`dovetail trace minimize` finds the smallest trace that still fails."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_backend import FAULT
from recorded import INPUT, SESSION_CALLS, relu_graph
from recorded_sessions import (
    asynchronous,
    record,
    several_graphs,
    with_profiles,
    with_state,
    with_updates,
)

import dovetail as dt
from dovetail.runtime import Backend, Context
from dovetail_saver.minimizing import Verdict, minimize
from dovetail_saver.replay import Request, Retarget, Session
from dovetail_saver.trace import Trace

# backend, context, graph, input, output, node, finalize, execute
ONE_NODE = 8


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
    for each in records:
        if getattr(each, "function", "") == "graph_add_node" and each.owner in executed:
            arguments = json.loads(bytes(each.arguments))
            before = max((after.get(h, "") for h in arguments["inputs"]), key=len, default="")
            path = f"{before}>{arguments['op_type']}"
            if path.endswith(">".join(ops)):
                return True
            after[arguments["outputs"][0]] = path
    return False


def has_input(trace: Trace, records: list[Any], value: float) -> bool:
    for each in records:
        if getattr(each, "function", "").startswith("graph_execute"):
            for key in each.payloads:
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
    assert dovetail(*minimized, "no-such-program").code == 2  # the folder is in use


@pytest.mark.parametrize("code", [0, 125, 130])
def test_codes_that_are_not_bad_are_usage_errors(
    trace: Path, tmp_path: Path, dovetail: Any, code: int
) -> None:
    command, out = Command(tmp_path / "check.py")("call", code), tmp_path / "out"
    assert dovetail("trace", "minimize", trace, "--out", out, "--check", command).code == 2
    assert not out.exists()
    assert dovetail("trace", "minimize", trace, "--out", out, "--check", "no-such").code == 2


def test_the_calls_of_a_long_trace_stay_on_disk(tmp_path: Path) -> None:
    executes = 3000
    with dt.record(tmp_path / "trace", payloads="none"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        for _ in range(executes):
            graph.execute({"x": INPUT})

    def check(trace: Path) -> Verdict:
        with (trace / "calls.jsonl").open() as file:
            return Verdict.BAD if any('"graph_finalize"' in line for line in file) else Verdict.GOOD

    tracemalloc.start()
    try:
        found = minimize(tmp_path / "trace", tmp_path / "out", check)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.before, found.after) == (SESSION_CALLS - 1 + executes, 7)
    assert peak < 600 * executes  # a record takes twice as much
