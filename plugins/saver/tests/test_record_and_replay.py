"""What is recorded is replayed with the same results."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import INPUT, relu_graph, run_relu

import dovetail as dt
from dovetail.errors import ConfigError
from dovetail.plugins.hooks import hooks
from dovetail.runtime import Backend
from dovetail.runtime.calls import CallRecord, differences
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace


def test_a_session_is_recorded_and_replayed(tmp_path: Path) -> None:
    with dt.record(tmp_path / "trace"):
        assert hooks.active
        run_relu()
    assert not hooks.active
    trace = Trace(tmp_path / "trace")
    played = list(replay(trace))
    assert trace.mark is not None
    assert trace.mark.reason == ""
    assert trace.mark.calls == trace.count() == len(played)
    assert trace.header.backends == ("cpu",)
    assert "graph_execute" in [p.record.function for p in played]
    assert [differences(p) for p in played] == [()] * len(played)


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="new or empty"), dt.record(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="unknown payloads 'some'"),
        dt.record(tmp_path / "trace", payloads="some"),
    ):
        pass
    assert not (tmp_path / "trace").exists()
    assert not hooks.active


@pytest.mark.parametrize(
    ("policy", "kept", "hashed"),
    [("all", 2, 2), ("inputs", 1, 1), ("outputs-hash", 1, 2), ("none", 0, 0)],
)
def test_payloads_are_kept_as_the_policy_says(
    tmp_path: Path, policy: str, kept: int, hashed: int
) -> None:
    with dt.record(tmp_path / "trace", payloads=policy):
        run_relu()
    trace = Trace(tmp_path / "trace")
    keys = [key for entry in trace for key in getattr(entry.record, "payloads", ()) if key]
    assert len(keys) == hashed
    assert len(trace.payloads.lines) == kept
    assert (trace.folder / "params.bin").stat().st_size == {0: 0, 1: 24, 2: 64 + 24}[kept]
    played = list(replay(trace))
    assert [differences(p) for p in played if policy != "none"] == [()] * (
        len(played) if policy != "none" else 0
    )


def test_calls_of_threads_are_recorded_one_by_one(tmp_path: Path) -> None:
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        graphs = [relu_graph(backend) for _ in range(4)]

        def run(i: int) -> None:
            for k in range(50):
                graphs[i].execute({"x": INPUT * (i + k)})
                graphs[i].execute_async({"x": INPUT + k}, {"y": np.empty_like(INPUT)}).wait()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = [entry.record for entry in Trace(tmp_path / "trace")]
    calls = [r for r in records if isinstance(r, CallRecord)]
    assert len({r.number for r in calls}) == len(calls)
    executes = [r for r in calls if r.function == "graph_execute"]
    owners = {r.thread: {e.owner for e in executes if e.thread == r.thread} for r in executes}
    assert sorted(map(len, owners.values())) == [1] * 4
    assert len(records) - len(calls) == 200  # completions
    found = [differences(played) for played in replay(Trace(tmp_path / "trace"))]
    assert found == [()] * len(records)


def test_threads_have_numbers_of_their_own(tmp_path: Path, dovetail: Any) -> None:
    """The system gives the identity of a thread that has ended to a later one."""
    count = 300  # more than a replay has at once
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        identities = set()

        def run() -> None:
            identities.add(threading.get_ident())
            graph.execute({"x": INPUT})
            graph.execute({"x": INPUT})

        for _ in range(count):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert len(identities) < count
    calls = [e.record for e in Trace(tmp_path / "trace") if isinstance(e.record, CallRecord)]
    executes = [call.thread for call in calls if call.function == "graph_execute"]
    assert executes == [1 + i // 2 for i in range(2 * count)]
    options = ("--threads", "as-recorded", "--compare", "exact", "--json")
    done = dovetail("replay", tmp_path / "trace", *options)
    assert (done.code, done.data["tensors"]) == (0, {"equal": 2 * count})
