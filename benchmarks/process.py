"""Measuring processes: each runs one engine, with a known number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NETWORK_HELPERS = ROOT / "tests" / "helpers"
# Variables that change how an engine or its libraries compute: a measurement sets its own. Without
# bytecode our modules would be compiled at each start, unlike those of installed dists.
FOREIGN_PREFIXES = (
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
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TIMEOUT_S = 600


class ProcessFailedError(Exception):
    """A measuring process failed; the message says which and why."""


def ask(module: str, request: Mapping[str, Any], *, threads: int) -> dict[str, Any]:
    """Run `benchmarks.<module>` in a new process; return its result.

    Args:
        module: The module to run.
        request: Its task, as JSON-able data.
        threads: Number of threads that libraries may start.

    Raises:
        ProcessFailedError: The process ended with an error or took too long.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", json.dumps(request)]
    what = f"{module} {' '.join(str(v) for v in request.values())}"
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(threads),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessFailedError(f"{what}: not finished after {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise ProcessFailedError(f"{what}: exit status {done.returncode}\n{done.stderr.strip()}")
    # The last line: an engine's library may print others.
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def request() -> dict[str, Any]:
    """Return the request to this process."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    return asked


def answer(found: Mapping[str, Any]) -> None:
    """Print the result for the driver."""
    print(json.dumps(found), flush=True)


def _environment(threads: int) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN_PREFIXES)}
    return kept | dict.fromkeys(THREAD_VARIABLES, str(threads))
