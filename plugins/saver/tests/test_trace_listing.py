"""`dovetail trace info` and `dump`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_info_counts_calls(trace: Path, dovetail: Any) -> None:
    done = dovetail("trace", "info", trace, "--json")
    assert done.code == 0, done.err
    # backend, context, graph, 5 tensors, 3 nodes, finalize, 3 executes, 2 frees
    assert done.data["calls"] == 17
    assert done.data["end"] == "complete"
    assert "17" in dovetail("trace", "info", trace).out


def test_dump_shows_calls_of_a_set(trace: Path, dovetail: Any) -> None:
    done = dovetail("trace", "dump", trace, "--calls", "graph_finalize,0-1")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "11"]
    assert "backend_create(name='cpu')" in lines[0]
    assert "graph 'net'" in lines[2]
    parsed = [
        json.loads(line) for line in dovetail("trace", "dump", trace, "--json").out.splitlines()
    ]
    assert [line["call"] for line in parsed] == list(range(17))


def test_a_set_without_calls_is_an_error(trace: Path, dovetail: Any) -> None:
    assert dovetail("trace", "dump", trace, "--calls", "500").code == 2
    assert dovetail("trace", "dump", trace, "--calls", "graph_exec").code == 2


def test_damaged_traces_are_reported(trace: Path, dovetail: Any) -> None:
    calls = trace / "calls.jsonl"
    calls.write_bytes(calls.read_bytes()[:-5])
    done = dovetail("trace", "info", trace, "--json")
    assert done.data["end"] == "cut off"
    calls.write_bytes(b'{"record":"call"}\n')
    for command in (("trace", "info"), ("trace", "dump"), ("replay",)):
        assert dovetail(*command, trace).code == 3


def test_a_trace_cannot_control_the_terminal(trace: Path, dovetail: Any) -> None:
    calls, header = trace / "calls.jsonl", trace / "trace.json"
    name = r"\u001b]0;mine\u0007\u009b2J\r\n    16   0  backend_free(backend 'cpu')"
    line = '{"record":"opaque","number":0,"name":"%s","text":"%s"}\n'
    calls.write_text(line % (name, name) + calls.read_text())
    header.write_text(header.read_text().replace('"dovetail-saver', r'"\u001b]0;mine\u0007'))
    for command in ("info", "stats", "dump"):
        done = dovetail("trace", command, trace)
        assert done.code == 0, done.err
        assert done.out.replace("\n", "").isprintable()
        assert done.out.count("\n    16 ") == (command == "dump")
