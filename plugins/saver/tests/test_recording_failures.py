"""Recorders that fail end their trace and let the program go on; killed processes leave a trace."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded import SESSION, SESSION_CALLS, Program, relu_graph, run_relu

import dovetail as dt
from dovetail.plugins.hooks import hooks
from dovetail.runtime import Backend
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace

# Nothing that the process writes may be larger: as a full disk, for calls or for payloads.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
session({times})
print("done")
"""


@pytest.mark.parametrize(
    ("times", "policy"), [(600, "none"), (3000, "all")], ids=["calls", "payloads"]
)
def test_a_full_disk(program: Program, tmp_path: Path, times: int, policy: str) -> None:
    done = program(
        LIMITED.format(times=times), DOVETAIL_RECORD="trace", DOVETAIL_RECORD_PAYLOADS=policy
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("\n") == 1
    assert f"of {tmp_path / 'trace'} failed" in done.stderr
    assert "File too large" in done.stderr
    trace = Trace(tmp_path / "trace")
    calls = trace.count()
    assert trace.mark is not None
    assert "File too large" in trace.mark.reason
    assert SESSION_CALLS < calls < times
    assert len(list(trace)) == calls
    assert len(list(replay(trace))) == calls
    assert trace.folder.joinpath("calls.jsonl").stat().st_size <= 100_000


@pytest.mark.parametrize("times", [1, 1000], ids=["at the end", "before"])
def test_a_removed_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture, times: int) -> None:
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        shutil.rmtree(tmp_path / "trace")
        for _ in range(times):
            graph.execute({"x": np.zeros((2, 3), np.float32)})
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    assert "the file was removed" in caplog.records[0].getMessage()
    assert str(tmp_path / "trace") in caplog.records[0].getMessage()
    assert not hooks.active
    assert not (tmp_path / "trace").exists()


def test_a_recorder_that_failed_is_not_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with dt.record(tmp_path / "trace"):
        monkeypatch.setattr("dovetail_saver.trace.payloads.os.write", full)
        run_relu()
        monkeypatch.undo()
        run_relu()
    assert len(caplog.records) == 1
    trace = Trace(tmp_path / "trace")
    assert "graph_execute" not in [e.record.function for e in trace]  # type: ignore[union-attr]
    assert trace.mark is not None
    assert "No space left on device" in trace.mark.reason


def test_a_killed_process_loses_no_call_that_has_returned(program: Program, tmp_path: Path) -> None:
    done = program(
        "import os, signal\nsession(5)\nos.kill(os.getpid(), signal.SIGKILL)",
        DOVETAIL_RECORD="trace",
    )
    assert done.returncode == -signal.SIGKILL
    trace = Trace(tmp_path / "trace")
    assert len(list(trace)) == trace.count() == SESSION_CALLS + 4
    assert trace.mark is None
    assert trace.is_cut
    assert trace.header.backends == ("cpu",)


def test_a_process_killed_at_any_time(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SESSION + "while True:\n    session(20)\n    print('.', flush=True)\n")
    environment = {**os.environ, "DOVETAIL_RECORD": str(tmp_path / "trace")}
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.kill()
        printed = 5 + len(process.stdout.read().splitlines())
    records = [entry.record for entry in Trace(tmp_path / "trace")]
    assert len(records) >= printed * (SESSION_CALLS + 19)
    assert [r.number for r in records] == list(range(1, len(records) + 1))


def test_a_trace_can_be_read_while_it_grows(tmp_path: Path) -> None:
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        before = Trace(tmp_path / "trace").count()
        graph.execute({"x": np.zeros((2, 3), np.float32)})
        trace = Trace(tmp_path / "trace")
        assert trace.count() == before + 1
        assert trace.mark is None


def test_a_cut_trace_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    with dt.record(tmp_path / "trace"):
        run_relu()
    calls = tmp_path / "trace" / "calls.jsonl"
    whole = calls.read_bytes()
    lines = whole.splitlines(keepends=True)
    wanted = [json.loads(line)["record"] for line in lines]
    for size in range(0, len(whole), 7):
        for tail in (b"", bytes(100)):
            calls.write_bytes(whole[:size] + tail)
            trace = Trace(tmp_path / "trace")
            count = whole[:size].count(b"\n")
            assert len(list(trace)) == wanted[:count].count("call")
            assert trace.is_cut is bool(tail or whole[:size][-1:] not in (b"", b"\n"))


def test_calls_of_a_signal_handler_that_interrupts_the_recorder(
    program: Program, tmp_path: Path
) -> None:
    text = """
import signal
import dovetail_saver.trace.payloads as payloads

write = payloads.os.write

def interrupted(file, data):
    payloads.os.write = write
    signal.raise_signal(signal.SIGTERM)
    return write(file, data)

signal.signal(signal.SIGTERM, lambda *_: session())
payloads.os.write = interrupted
session()
print("done")
"""
    done = program(text, DOVETAIL_RECORD="trace")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    trace = Trace(tmp_path / "trace")
    assert trace.count() == 2 * SESSION_CALLS
    assert len(list(replay(trace))) == 2 * SESSION_CALLS
