"""Which executions are profiled, how many events are kept, and levels of a backend's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Tensor
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime import EventType, ProfileEvent, read_profile_log
from dovetail_cpu import CpuBackend


def net_run(run: Any, *args: object) -> Any:
    given = ("--model", "net.dvt", "--input-list", "list.txt", "--num-inferences", 8)
    return run("--json", "net-run", *given, *args)


@pytest.fixture(autouse=True)
def fed(two_steps: str, raw: Any, listing: Any) -> None:
    raw("a.raw", np.arange(6.0))
    listing("a.raw")


def executions() -> list[ProfileEvent]:
    """The executions in the log of the run."""
    (section,) = read_profile_log("output/qnn-profiling-data_0.log")
    events = (record.event for record in section.records if record.call in (1, 3))
    return [event for event in events if event.type == EventType.EXECUTE]


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
@pytest.mark.parametrize("level", ["basic", "detailed"])
@pytest.mark.parametrize("count", [0, 1, 3, 8, 100])
def test_the_number_of_profiled_executions(
    run: Any, level: str, count: int, mode: list[str]
) -> None:
    given = ("--profiling-level", level, "--graph-profiling-num-executions", count)
    done = net_run(run, *given, *mode)
    assert done.code == 0, done.err
    (times,) = done.data["profiling"]["graphs"]
    assert times["execute"]["count"] == len(executions()) == min(count, 8)
    assert times["client"]["inferences"] == done.data["graphs"][0]["inferences"] == 8
    assert done.data["graphs"][0]["inference_ms"]["min"] > 0  # the others are timed, too
    if level == "detailed":
        assert {node["count"] for node in times["nodes"]} <= {min(count, 8)}


def test_steps_of_the_same_node_count_together(run: Any, new_net: Any) -> None:
    net, (coarse, fine) = new_net(), map(ScaleOffset, (0.02, 0.01))
    x = net.input("x", 2, 3, dtype=DType.UFIXED_POINT_8, encoding=coarse)
    out = Tensor("y", DType.UFIXED_POINT_8, (3, 2), encoding=fine)
    net.save(net.node("Transpose", x, name="y", out=out, perm=[1, 0]))
    done = net_run(run, "--profiling-level", "detailed")
    assert done.code == 0, done.err
    parts = [part for event in executions() for part in event.children]
    steps = [part for part in parts if part.type == EventType.NODE]
    assert {part.identifier for part in steps} == {"y_node"}
    assert len(steps) == 16  # a move and a requantization in each of 8 executions
    (node,) = done.data["profiling"]["graphs"][0]["nodes"]
    assert node["count"] == 8
    assert node["mean_us"] == pytest.approx(sum(part.value for part in steps) / 8)
    counters = [c for part in steps for c in part.counters if c.name == "bytes_moved"]
    assert node["counters"]["bytes_moved"] == sum(c.value for c in counters) / 8


class Levels:
    """The levels of the profiles that executions get."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        if call.function in ("graph_execute", "graph_execute_async"):
            profile: Any = call.arguments["profile"]
            self.seen[profile.level] += 1


def test_what_is_not_profiled_costs_no_measurement_of_nodes(run: Any) -> None:
    levels = Levels()
    with hooks.registered(levels):
        given = ("--profiling-level", "detailed", "--graph-profiling-num-executions", 2)
        assert net_run(run, *given).code == 0
    assert levels.seen == {2: 2, 1: 6}


def test_profiling_begins_after_a_delay(run: Any) -> None:
    given = ("--profiling-level", "basic", "--graph-profiling-start-delay")
    assert net_run(run, *given, 1000).data["profiling"]["graphs"][0]["execute"] == {"count": 0}
    assert executions() == []
    assert net_run(run, *given, 0).code == 0
    assert len(executions()) == 8


CONFIGS = {
    "run.toml": "[[graph]]\ngraph_name = 'net'\ngraph_profiling_num_executions = 3\n",
    "run.json": '{"graph_configs": [{"graph_name": "net", "graph_profiling_num_executions": 3}]}',
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_config_sets_the_same(run: Any, name: str) -> None:
    Path(name).write_text(CONFIGS[name])
    done = net_run(run, "--profiling-level", "basic", "--config-file", name)
    assert (done.code, len(executions())) == (0, 3), done.err
    assert "no effect" not in done.err
    given = ("--config-file", name, "--graph-profiling-num-executions", 5)
    assert net_run(run, "--profiling-level", "basic", *given).code == 0
    assert len(executions()) == 5  # the option counts


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"graph_configs": [{"graph_name": "net", "graph_profiling_start_delay": -1}]}, ">= 0"),
        ({"graph_configs": [{"graph_name": "net", "graph_profiling_num_executions": -1}]}, ">= 0"),
        ({"profile_configs": {"num_max_events": 0}}, ">= 1"),
        ({"async_graph_execution_config": {"execute_enqueue_tasks_limit": 0}}, ">= 1"),
    ],
)
def test_configs_out_of_range_are_refused(run: Any, value: Any, part: str) -> None:
    Path("run.json").write_text(json.dumps(value))
    done = net_run(run, "--config-file", "run.json")
    assert done.code == 2
    assert part in done.error["message"]


def count(event: ProfileEvent) -> int:
    return 1 + sum(map(count, event.children))


@pytest.mark.parametrize("limit", [1, 2, 4, 7, 11, None])
def test_the_number_of_events_is_limited(run: Any, limit: int | None) -> None:
    """The first ones are kept, in their order; parts count."""
    Path("run.toml").write_text(f"[profile]\nnum_max_events = {limit}\n" if limit else "")
    given = ("--config-file", "run.toml", "--synchronous", "--profiling-level", "detailed")
    done = net_run(run, *given)
    assert done.code == 0, done.err
    (section,) = read_profile_log("output/qnn-profiling-data_0.log")
    calls = [r.event for r in section.records if r.call in (1, 2)]
    assert calls[0].type == EventType.FINALIZE
    assert sum(map(count, calls)) == (limit or sum(map(count, calls)))
    if limit is None:
        assert [len(event.children) for event in calls[1:]] == [2] * 8
    assert sum(record.call == 8 for record in section.records) == 8  # the command's own
    (times,) = done.data["profiling"]["graphs"]
    assert times["execute"]["count"] == 8  # means and counts are of all executions


def test_a_level_of_the_backends_own(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities = CpuBackend.capabilities

    def with_level(self: Any) -> Any:
        return msgspec.structs.replace(capabilities(self), profile_levels=(1003, 1004))

    monkeypatch.setattr(CpuBackend, "capabilities", with_level)
    levels = Levels()
    with hooks.registered(levels):
        done = net_run(run, "--profiling-level", "backend")
    assert done.code == 0, done.err
    assert levels.seen == {1003: 8}
    (times,) = done.data["profiling"]["graphs"]
    assert done.data["profiling"]["level"] == "backend"
    assert {node["count"] for node in times["nodes"]} == {8}
