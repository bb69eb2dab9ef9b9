"""How often a graph runs, what is measured, and what is kept."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import EventType, ProfiledCall, read_profile_log
from dovetail.runtime.base import PreparedBase
from dovetail_tools._net_run import executor


@pytest.fixture
def three(two_steps: str, raw: Any, listing: Any) -> list[Any]:
    given = [raw(f"{i}.raw", np.arange(6.0) + i) for i in range(3)]
    listing("0.raw", "1.raw", "2.raw")
    return given


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
@pytest.mark.parametrize(
    ("options", "inferences", "results"),
    [
        ([], 3, 3),
        (["--num-inferences", 8], 8, 3),
        (["--num-inferences", 2], 2, 2),
        (["--keep-num-outputs", 1], 3, 1),
        (["--keep-num-outputs", 0, "--num-inferences", 4], 4, 0),
        (["--keep-num-outputs", 9], 3, 3),
        (["--num-inferences", 5, "--duration", 1000], 5, 3),
    ],
)
def test_counts(
    three: list[Any],
    run: Any,
    result: Any,
    mode: list[str],
    options: list[object],
    inferences: int,
    results: int,
) -> None:
    done = net_run(run, *mode, *options)
    assert done.code == 0, done.err
    (graph,) = done.data["graphs"]
    assert (graph["inferences"], graph["results"]) == (inferences, results)
    assert len(list(Path("output").glob("Result_*"))) == results
    for i in range(results):
        np.testing.assert_array_equal(result("y.raw", index=i), -three[i])


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
def test_duration_loops(three: list[Any], run: Any, mode: list[str]) -> None:
    done = net_run(run, "--duration", 0.2, *mode)
    (graph,) = done.data["graphs"]
    # three inferences take microseconds: only a loop fills the time
    assert graph["inferences"] > 3
    assert graph["results"] == 3


def test_a_duration_that_is_over_still_runs_once(three: list[Any], run: Any) -> None:
    assert net_run(run, "--duration", 1e-9).data["graphs"][0]["inferences"] == 1


def test_reading_goes_on_while_the_backend_executes(
    three: list[Any], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first execution waits until the inputs of the two next ones have been read."""
    from dovetail_cpu import CpuBackend

    third_read = threading.Event()
    read = executor.JobRunner._read
    prepare = CpuBackend.prepare
    waited: list[bool] = []

    def noting(self: Any, slot: Any, inference: int) -> None:
        read(self, slot, inference)
        if inference == 2:
            third_read.set()

    class Waiting(PreparedBase):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def run(self, inputs: Any, outputs: Any, control: Any) -> None:
            waited.append(third_read.wait(20))
            self._inner.run(inputs, outputs, control)

    monkeypatch.setattr(executor.JobRunner, "_read", noting)
    monkeypatch.setattr(CpuBackend, "prepare", lambda *args: Waiting(prepare(*args)))
    assert net_run(run).code == 0
    assert waited == [True, True, True]


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_any_queue_depth_gives_the_same(
    three: list[Any], run: Any, result: Any, depth: int
) -> None:
    Path("run.toml").write_text(f"[context]\nasync_execute_queue_depth = {depth}\n")
    assert net_run(run, "--config-file", "run.toml", "--num-inferences", 20).code == 0
    for i in range(3):
        np.testing.assert_array_equal(result("y.raw", index=i), -three[i])


def test_a_timeout_ends_the_run(three: list[Any], run: Any, entries: Any) -> None:
    before = entries()
    for mode in ([], ["--synchronous"]):
        done = net_run(run, "--timeout", 1, *mode)
        assert done.code == 7
        assert done.error["code"] == "GRAPH_ERROR_TIMED_OUT"
        assert entries() == before
    assert net_run(run, "--timeout", 60_000_000).code == 0


# -- what is measured ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "keys"),
    [
        ("client", {"graph", "client"}),
        ("basic", {"graph", "client", "finalize_us", "execute", "queue_wait"}),
        ("detailed", {"graph", "client", "finalize_us", "execute", "queue_wait", "nodes"}),
    ],
)
def test_profiling_levels(three: list[Any], run: Any, level: str, keys: set[str]) -> None:
    done = net_run(run, "--profiling-level", level, "--num-inferences", 5)
    assert done.code == 0, done.err
    data = done.data["profiling"]
    assert (data["backend"], data["level"]) == ("cpu", level)
    (graph,) = data["graphs"]
    assert set(graph) == keys
    client = graph["client"]
    assert (client["inferences"], client["read"]["count"], client["write"]["count"]) == (5, 5, 3)
    assert client["wall_us"] >= client["read"]["mean_us"] * 5
    if level != "client":
        execute = graph["execute"]
        assert graph["finalize_us"] > 0
        assert execute["count"] == graph["queue_wait"]["count"] == 5
        assert 0 < execute["min_us"] <= execute["median_us"] <= execute["max_us"]
        assert execute["min_us"] <= execute["mean_us"] <= execute["max_us"]
    if level == "detailed":
        assert {name for node in graph["nodes"] for name in node["nodes"].split(" + ")} == {
            "mid_node",
            "y_node",
        }
        assert {node["count"] for node in graph["nodes"]} == {5}


def test_counters_of_nodes_are_means_of_the_log(three: list[Any], run: Any) -> None:
    done = net_run(run, "--profiling-level", "detailed", "--num-inferences", 2)
    (graph,) = done.data["profiling"]["graphs"]
    (section,) = read_profile_log("output/qnn-profiling-data_0.log")
    moved = [
        counter.value
        for record in section.records
        for part in record.event.children
        for counter in part.counters
        if counter.name == "bytes_moved"
    ]
    assert moved
    assert sum(node["counters"]["bytes_moved"] for node in graph["nodes"]) * 2 == sum(moved)
    given = ("--model", "net.dvt", "--input-list", "list.txt", "--profiling-level", "detailed")
    shown = run("net-run", *given).err
    header, *rows = [line for line in shown.splitlines() if line.startswith(("GRAPH", "net "))]
    column = header.index("BYTES MOVED")
    texts = [row[column:].split()[0] for row in rows if " node " in row]
    assert texts == [f"{node['counters']['bytes_moved']:,.0f}" for node in graph["nodes"]]


@pytest.mark.parametrize("level", ["client", "basic", "detailed"])
def test_the_profile_log(three: list[Any], run: Any, level: str) -> None:
    given = ("--num-inferences", 5, "--chrome-trace", "trace.json")
    assert net_run(run, "--profiling-level", level, *given).code == 0
    (section,) = read_profile_log("output/qnn-profiling-data_0.log")
    assert not section.is_cut
    assert {record.graph for record in section.records} == {"net"}
    calls = Counter(record.call for record in section.records)
    assert calls.pop(ProfiledCall.APP_COMPOSE_GRAPHS) == 1
    assert calls.pop(ProfiledCall.APP_EXECUTE_IPS) == 5
    assert calls.pop(ProfiledCall.BACKEND_FINALIZE, 0) == (level != "client")
    executions = {ProfiledCall.BACKEND_EXECUTE, ProfiledCall.BACKEND_EXECUTE_ASYNC}
    assert calls.keys() <= executions
    assert calls.total() == (5 if level != "client" else 0)
    events = [part for record in section.records for part in record.event.children]
    steps = [part for part in events if part.type == EventType.NODE]
    assert {name for step in steps for name in step.identifier.split(" + ")} == (
        {"mid_node", "y_node"} if level == "detailed" else set()
    )
    trace = json.loads(Path("trace.json").read_text())["traceEvents"]
    shown = [event for event in trace if event["ph"] == "X" and event["cat"] == "node"]
    assert len(shown) == len(steps)
    assert sum(e["cat"] == "execute_preprocess" for e in trace if e["ph"] == "X") == 5


def test_a_trace_is_next_to_the_results_as_on_a_device(three: list[Any], run: Any) -> None:
    given = ("--profiling-level", "detailed", "--profiling-option", "optrace")
    assert net_run(run, *given, "--output-dir", "out", "--perf-profile", "BURST").code == 0
    events = json.loads(Path("out/chrometrace.json").read_text())["traceEvents"]
    assert {"execute", "node"} <= {event.get("cat") for event in events}
    done = net_run(run, "--profiling-level", "basic", "--profiling-option", "optrace")
    assert done.code == 2
    assert "optrace requires --profiling-level detailed" in done.error["message"]


def test_a_chrome_trace_overwrites_nothing_that_is_read(three: list[Any], run: Any) -> None:
    before = Path("list.txt").read_bytes()
    done = net_run(run, "--profiling-level", "detailed", "--chrome-trace", "./list.txt")
    assert done.code == 2, done.err
    assert "--chrome-trace would overwrite list.txt, which is read" in done.error["message"]
    assert Path("list.txt").read_bytes() == before


def test_a_chrome_trace_needs_a_profile(three: list[Any], run: Any) -> None:
    done = net_run(run, "--chrome-trace", "trace.json")
    assert done.code == 2
    assert "--chrome-trace requires --profiling-level" in done.error["message"]


def test_the_summary_goes_to_stderr(three: list[Any], run: Any) -> None:
    done = run(
        "net-run", "--model", "net.dvt", "--input-list", "list.txt", "--profiling-level", "basic"
    )
    assert (done.code, done.out) == (0, "")
    assert "net on cpu: 3 inferences; ms per inference: mean " in done.err
    assert "outputs in output/Result_0 to Result_2" in done.err
    assert "wait in the queue" in done.err


def test_progress_is_for_terminals_only(
    three: list[Any], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    assert net_run(run).code == 0
    assert "rich.progress" not in sys.modules
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run("net-run", "--model", "net.dvt", "--input-list", "list.txt").code == 0
    assert "rich.progress" in sys.modules


@pytest.mark.parametrize(("limit_us", "asynchronous"), [(1e9, range(3, 7)), (0, [30])])
def test_short_executions_stop_overlapping(
    three: list[Any],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
    limit_us: float,
    asynchronous: Sequence[int],
) -> None:
    monkeypatch.setattr(executor, "_PAYS_US", limit_us)
    calls: Counter[str] = Counter()

    class Count:
        @hookimpl
        def dovetail_api_call(self, call: ApiCall) -> None:
            calls[call.function] += 1

    with hooks.registered(Count()):
        assert net_run(run, "--num-inferences", 30).code == 0
    assert calls["graph_execute_async"] in asynchronous
    assert calls["graph_execute_async"] + calls["graph_execute"] == 30


class Handles:
    """The names of calls that create or free a profile or a signal."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        if call.function.startswith(("profile_", "signal_")):
            self.calls[call.function] += 1


@pytest.mark.parametrize(
    ("options", "profiles"),
    [
        (["--synchronous"], 2),  # of finalize, and of all executions
        (["--synchronous", "--timeout", 10**9, "--num-inferences", 9], 2),
        (["--num-inferences", 1], 2),
        (["--num-inferences", 2], 3),
        (["--num-inferences", 9, "--timeout", 10**9], 4),  # three executions overlap
    ],
)
def test_handles_are_created_as_needed_and_freed(
    three: list[Any], run: Any, options: list[object], profiles: int
) -> None:
    handles = Handles()
    with hooks.registered(handles):
        assert net_run(run, *options).code == 0
    calls = handles.calls
    assert calls["profile_create"] == calls["profile_free"] == profiles
    assert (
        calls["signal_create"] == calls["signal_free"] == (profiles - 1) * ("--timeout" in options)
    )


def test_the_report_counts_in_the_singular_and_within_limits(run: Any, three: list[Any]) -> None:
    given = ("net-run", "--model", "net.dvt", "--input-list", "list.txt", "--num-inferences")
    assert ": 1 inference; " in run(*given, 1).err
    assert ": 2 inferences; " in run(*given, 2).err
    done = run(*given, 2**31)
    assert done.code == 2
    assert "2147483647" in done.err
