"""Runs that are ended from outside leave nothing, or what they leave goes with the next run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.files import staged_folder


def test_sigterm_unwinds(two_steps: str, raw: Any, listing: Any, entries: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    before = entries()
    code = "import sys; from dovetail.cli import main; sys.exit(main(sys.argv[1:]))"
    args = ["net-run", "--model", two_steps, "--input-list", "list.txt", "--duration", "60"]
    with subprocess.Popen([sys.executable, "-c", code, *args]) as process:
        until = time.monotonic() + 30
        while not list(Path().glob("output/.dovetail-*/new/Result_0")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert entries() == before


@pytest.mark.skipif(sys.platform == "win32", reason="no locks that end with a process")
def test_folders_of_dead_runs_go(two_steps: str, run: Any, raw: Any, listing: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    args = ["--model", two_steps, "--input-list", "list.txt"]
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from dovetail.files import staged_folder\n"
        "with staged_folder(Path('output')) as staging:\n"
        "    print(staging.new.parent.name, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", code]
    dead, old = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        for _ in range(2)
    )
    assert {p.name for p in Path("output").iterdir()} == {old}  # the second removed the first
    Path("output", old, "old").mkdir()
    Path("output/.dovetail-unknown.part").mkdir()
    Path("output/.dovetail-link.part").symlink_to(old)
    with staged_folder(Path("output")) as staging:
        assert run("net-run", *args).code == 0
        left = {p.name for p in Path("output").glob(".dovetail-*")}
        assert left == {
            staging.new.parent.name,
            old,
            ".dovetail-unknown.part",
            ".dovetail-link.part",
        }
    assert dead not in left
