"""Measuring processes: each runs one task, with a known number of threads."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NETWORK_HELPERS = ROOT / "tests" / "helpers"
# Variables that change how an engine or its libraries compute: a measurement sets its own. Without
# bytecode our modules would be compiled at each start, unlike those of installed dists.
_FOREIGN_PREFIXES = (
    "DNNL_",
    "DOVETAIL_",
    "GOMP_",
    "GOTO_",
    "KMP_",
    "MKL_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "ORT_",
    "OV_",
    "PYTHONDONTWRITEBYTECODE",
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TIMEOUT_S = 600


class ProcessFailedError(Exception):
    """A measuring process failed; the message says which and why.

    Attributes:
        reason: Why, in a few words; may be empty.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


def ask(task: str, arguments: Mapping[str, Any], *, threads: int) -> Any:
    """Call a function in a new process; return its result.

    Args:
        task: The function, as `module:function` below `benchmarks`. It returns JSON-able data.
        arguments: Its arguments by name, JSON-able, too.
        threads: Number of threads that libraries may start.

    Raises:
        ProcessFailedError: The process ended with an error or took too long.
    """
    command = [sys.executable, "-m", "benchmarks.process", task, json.dumps(arguments)]
    what = f"{task} {' '.join(str(v) for v in arguments.values())}"
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(threads),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"not finished after {TIMEOUT_S} s"
        raise ProcessFailedError(f"{what}: {reason}", reason) from error
    if done.returncode != 0:
        reason, said = _ended(done.returncode), done.stderr.strip()
        raise ProcessFailedError(f"{what}: {reason}\n{said}", reason)
    # The last line: an engine's library may print others.
    return json.loads(done.stdout.splitlines()[-1])


def _ended(status: int) -> str:
    """Return how a process ended: negative numbers are signals."""
    if status >= 0:
        return f"exit status {status}"
    return f"{signal.strsignal(-status) or 'signal'}, exit status {status}"


def environment(threads: int) -> dict[str, str]:
    """Return the variables of a measuring process with a number of threads."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN_PREFIXES)}
    return kept | dict.fromkeys(_THREAD_VARIABLES, str(threads))


def _main(task: str, arguments: str) -> None:
    """Call the requested function and print its result for the driver."""
    module, _, name = task.partition(":")
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    print(json.dumps(function(**json.loads(arguments))), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
