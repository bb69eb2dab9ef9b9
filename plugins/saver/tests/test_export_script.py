"""`dovetail trace export python`: the script makes the same calls with the same results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_sessions import (
    asynchronous,
    quantized,
    record,
    several_graphs,
    with_memory,
    with_profiles,
    with_state,
    with_updates,
)

import dovetail as dt
from dovetail.runtime import Context

SESSIONS = (
    *(asynchronous, quantized, several_graphs, with_memory, with_profiles, with_state),
    with_updates,
)


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.__name__)
def test_the_script_gives_the_recorded_results(
    tmp_path: Path, dovetail: Any, session: Callable[[Context], None]
) -> None:
    trace, out, again = record(tmp_path / "trace", session), tmp_path / "out", tmp_path / "again"
    done = dovetail("trace", "export", "python", trace, "--out", out)
    assert done.code == 0, done.err
    code = compile((out / "replay.py").read_text(), "replay.py", "exec")
    names: dict[str, Any] = {"__file__": str(out / "replay.py"), "__name__": "replay"}
    with dt.record(again):
        exec(code, names)  # noqa: S102 - the script is what is tested
        names["main"]()
    assert names["FAULTS"] == []
    # the same calls; the context and the backend are freed at the end of the session, too
    done = dovetail("trace", "diff", trace, again)
    assert done.out == ""


def test_a_difference_is_the_exit_status(tmp_path: Path, dovetail: Any) -> None:
    trace, out = record(tmp_path / "trace", several_graphs), tmp_path / "out"
    assert dovetail("trace", "export", "python", trace, "--out", out).code == 0
    done = run(out / "replay.py")
    assert (done.returncode, done.stdout) == (0, "as recorded\n"), done.stderr
    file = min(out.glob("data/call_*.npy"))  # what was recorded
    np.save(file, np.load(file) + 1)
    done = run(out / "replay.py")
    assert done.returncode == 1
    assert f"call {file.name.split('_')[1]}: output" in done.stdout


def test_names_of_a_trace_are_no_code(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    calls = trace / "calls.jsonl"
    hostile = r"x\"); import os; os.abort() #\n"
    calls.write_text(calls.read_text().replace('"name":"net"', f'"name":"{hostile}"'))
    out = tmp_path / "out"
    assert dovetail("trace", "export", "python", trace, "--out", out).code == 0
    assert run(out / "replay.py").stdout == "as recorded\n"
