"""`dovetail trace diff` and `stats`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from network import run_network

from dovetail_saver.recording import Recorder


def test_two_recordings_of_one_program_do_not_differ(
    trace: Path, tmp_path: Path, dovetail: Any
) -> None:
    with Recorder(tmp_path / "again"):
        run_network()
    done = dovetail("trace", "diff", trace, tmp_path / "again")
    assert (done.code, done.out) == (0, "")


def test_calls_and_data_that_differ_are_shown(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    with Recorder(tmp_path / "again"):
        run_network(executes=4, relu="Tanh")
    done = dovetail("trace", "diff", trace, tmp_path / "again")
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line[0] for line in lines] == ["-", "+", "!", "!", "!", "+"]
    assert "op_type='Relu'" in lines[0]
    assert "op_type='Tanh'" in lines[1]
    assert lines[2].endswith("graph_execute: other values of output 'y'")
    assert "graph_execute" in lines[5]


def test_stats_count_calls_errors_and_payloads(trace: Path, dovetail: Any) -> None:
    done = dovetail("trace", "stats", trace, "--json")
    assert done.code == 0, done.err
    found = done.data
    assert found["calls"] == 17
    assert found["functions"]["graph_execute"]["calls"] == 3
    assert found["functions"]["graph_create_tensor"]["calls"] == 5
    assert found["errors"] == 0
    # the constant, three inputs, three outputs, of 24 bytes each
    assert (found["payloads"], found["payload_bytes"]) == (7, 7 * 24)
    assert found["end"] == "complete"
    longest = found["functions"]["graph_execute"]
    assert 0 < longest["max_ns"] <= longest["total_ns"] <= found["span_ns"]
    assert "graph_execute" in dovetail("trace", "stats", trace).out
