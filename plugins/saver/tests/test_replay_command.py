"""`dovetail replay` makes the same calls and compares what they return."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import INPUT, relu_graph

import dovetail as dt
from dovetail.errors import BackendError
from dovetail.runtime import Backend

RELU = '"op_type":"Relu"'


def edited(trace: Path, old: str, new: str) -> Path:
    """Replace a text in the calls of a trace."""
    path = trace / "calls.jsonl"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    return trace


def test_a_replay_on_the_same_backend_is_equal(trace: Path, dovetail: Any) -> None:
    done = dovetail("replay", trace, "--compare", "exact", "--json")
    assert done.code == 0, done.err
    assert done.data["failures"] == 0
    assert done.data["executes"] == 3
    assert done.data["tensors"] == {"equal": 3}
    text = dovetail("replay", trace, "--compare", "exact").out
    assert "as recorded" in text
    assert "3: 3 equal" in text
    assert "cpu, as recorded" in text


def test_other_values_are_found_and_measured(trace: Path, dovetail: Any) -> None:
    done = dovetail(
        "replay", edited(trace, RELU, '"op_type":"Tanh"'), "--compare", "exact", "--json"
    )
    assert done.code == 1
    assert done.data["failures"] == done.data["tensors"]["different"] == 3
    worst = done.data["worst"]
    assert worst["tensor"] == "y"
    assert worst["graph"] == "net"
    # the largest difference between tanh(relu(x) + 0.5) and tanh(tanh(x) + 0.5), of all inputs
    x = (np.arange(6) - 3) * np.array([[1], [2], [3]])
    wanted = np.tanh(np.maximum(x, 0) + 0.5) - np.tanh(np.tanh(x) + 0.5)
    assert worst["largest_error"] == pytest.approx(np.abs(wanted).max(), abs=1e-6)


def test_without_compare_outputs_may_differ(trace: Path, dovetail: Any) -> None:
    done = dovetail("replay", edited(trace, RELU, '"op_type":"Tanh"'))
    assert done.code == 0
    assert "outputs not compared" in done.out


def test_a_call_that_is_rejected_before_outputs_are_compared(trace: Path, dovetail: Any) -> None:
    done = dovetail("replay", edited(trace, RELU, '"op_type":"No"'), "--compare", "exact")
    assert done.code == 1
    assert "none: no execution had outputs" in done.out


def test_the_backend_of_a_replay_is_named(trace: Path, dovetail: Any) -> None:
    assert "hetero, recorded on cpu" in dovetail("replay", trace, "--backend", "hetero:cpu").out
    assert dovetail("replay", trace, "--backend", "no").code == 6


def test_a_replay_that_stops_reads_no_cut_trace(trace: Path, dovetail: Any) -> None:
    edited(trace, RELU, '"op_type":"Rely"')
    done = dovetail("replay", trace, "--json")
    assert done.code == 1
    assert not done.data["is_cut"]
    assert "cut off" not in done.err


def test_a_rejected_call_is_shown_as_recorded(trace: Path, dovetail: Any) -> None:
    done = dovetail("replay", edited(trace, RELU, '"op_type":"Rely"'), "--json")
    assert done.code == 1
    (found,) = done.data["differences"]
    assert found["is_rejected"]
    assert found["text"].startswith("graph_add_node(graph 'net', name='relu', ")
    assert "inputs=[tensor 'x']" in found["text"]
    assert "Rely" in found["reason"]
    assert done.data["executes"] == 0


def test_keep_going_skips_what_depends_on_a_rejected_call(trace: Path, dovetail: Any) -> None:
    damaged = edited(trace, RELU, '"op_type":"Rely"')
    done = dovetail("replay", damaged, "--keep-going", "--json")
    assert done.code == 1
    # two nodes, finalize, three executes; the context and the backend are freed
    assert done.data["skipped"] == 6
    assert len(done.data["differences"]) == 1


def test_counts_include_what_is_not_listed(tmp_path: Path, dovetail: Any) -> None:
    executes, wrong = 1002, 1011
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        for _ in range(executes):
            graph.execute({"x": INPUT})
        for _ in range(wrong):
            with suppress(BackendError):
                graph.execute({"z": INPUT})
    lines = (tmp_path / "trace" / "calls.jsonl").read_text()
    (code,) = set(re.findall(r'"error":{"type":"BackendError","code":"(\w+)"', lines))
    trace = edited(edited(tmp_path / "trace", code, "GRAPH_ERROR"), RELU, '"op_type":"Tanh"')
    done = dovetail("replay", trace, "--compare", "exact", "--json")
    assert done.code == 1
    found = done.data
    assert (found["calls_that_differ"], len(found["differences"])) == (wrong, 1000)
    assert (found["unequal_tensors"], len(found["unequal"])) == (executes, 1000)
    assert found["failures"] == executes + wrong
    text = dovetail("replay", trace, "--compare", "exact").out
    assert f"calls that differ  {wrong:,}\n" in text
    assert f"... and {wrong - 10:,} more; --json has the first 1,000" in text
    assert f"... and {executes - 10:,} more; --json has the first 1,000" in text


def test_loops_threads_and_timing(trace: Path, dovetail: Any) -> None:
    options = ("--loop", 2, "--threads", "as-recorded", "--timing", "as-recorded")
    done = dovetail("replay", trace, "--compare", "exact", "--json", *options)
    assert done.code == 0, done.err
    assert done.data["tensors"] == {"equal": 6}
    assert len(done.data["seconds"]) == 2
    # `recorded_seconds` ends with the last call, which a replay makes no earlier
    assert min(done.data["seconds"]) > 0.5 * done.data["recorded_seconds"]


def test_outputs_are_saved_and_the_replay_is_recorded(
    trace: Path, tmp_path: Path, dovetail: Any
) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    done = dovetail("replay", trace, "--save-outputs", out, "--re-record", again)
    assert done.code == 0, done.err
    found = sorted(out.glob("call_*/y.npy"))
    assert len(found) == 3
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
    np.testing.assert_allclose(np.load(found[0]), np.tanh(np.maximum(x, 0) + 0.5), rtol=1e-5)
    assert dovetail("replay", again, "--compare", "exact").code == 0


def test_settings_of_another_backend_are_dropped_and_named(
    trace: Path, tmp_path: Path, dovetail: Any
) -> None:
    edited(
        trace, '"config":{"context_priority":"high"', '"config":{"context_priority":"high","odd":1'
    )
    assert dovetail("replay", trace).code == 1  # the recorded backend does not know the key
    done = dovetail("replay", trace, "--backend", "hetero:cpu", "--compare", "exact", "--json")
    assert done.code == 0, done.err
    assert done.data["dropped"] == ["settings of context_create: odd"]
    assert "odd" in done.err


def test_wrong_options_are_usage_errors(trace: Path, dovetail: Any) -> None:
    assert dovetail("replay", trace, "--config", "x.toml").code == 2
    assert dovetail("replay", trace, "--compare", "NoSuchVerifier").code == 2
    assert dovetail("replay", trace, "--timing", "slow").code == 2
    assert dovetail("replay", trace / "nothing").code == 3
