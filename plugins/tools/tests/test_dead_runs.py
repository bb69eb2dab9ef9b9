"""Runs that are ended from outside leave nothing, or what they leave goes with the next run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def test_sigterm_unwinds(two_steps: str, raw: Any, listing: Any, entries: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    before = entries()
    code = "import sys; from dovetail.cli import main; sys.exit(main(sys.argv[1:]))"
    args = ["net-run", "--model", two_steps, "--input-list", "list.txt", "--duration", "60"]
    with subprocess.Popen([sys.executable, "-c", code, *args]) as process:
        until = time.monotonic() + 30
        while not list(Path().glob("output/.net-run-*/new/Result_0")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert entries() == before


def test_folders_of_dead_runs_go(two_steps: str, run: Any, raw: Any, listing: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    here = socket.gethostname()
    owners = {
        "dead": f"{gone.pid} {here}",
        "alive": f"{os.getpid()} {here}",
        "elsewhere": f"{gone.pid} not-{here}",
        "old": f"{gone.pid} {here}",
    }
    for name, owner in owners.items():
        folder = Path(f"output/.net-run-{name}")
        folder.mkdir(parents=True)
        (folder / "owner").write_text(owner)
    Path("output/.net-run-old/old").mkdir()
    Path("output/.net-run-unknown").mkdir()
    assert run("net-run", "--model", two_steps, "--input-list", "list.txt").code == 0
    left = {p.name.removeprefix(".net-run-") for p in Path("output").glob(".net-run-*")}
    assert left == {"alive", "elsewhere", "old", "unknown"}
