"""What the tests of traces share: a session of a few calls, and programs that make them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dovetail.ir import Array, DType, TensorKind
from dovetail.runtime import Backend, Graph

INPUT = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
SESSION = """
import numpy as np
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend

def session(times=1):
    with Backend.create("cpu") as backend:
        graph = backend.create_context().create_graph("g")
        x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
        y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
        graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
        graph.finalize()
        for i in range(times):
            graph.execute({"x": np.full((2, 3), i, np.float32)})
"""
SESSION_CALLS = 10  # of a session that executes once

Program = Callable[..., subprocess.CompletedProcess[str]]


def relu_graph(backend: Backend) -> Graph:
    """Return a finalized graph of one Relu from `x` to `y`, 2 x 3 floats."""
    graph = backend.create_context().create_graph("g")
    x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
    graph.finalize()
    return graph


def run_relu() -> Array:
    """Make the calls of a session that executes once."""
    with Backend.create("cpu") as backend:
        return np.array(relu_graph(backend).execute({"x": INPUT})["y"])


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs a Python program with the function `session`, in a process of its own."""

    def run(
        text: str, *, command: Sequence[str] = (sys.executable,), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(SESSION + text)
        return subprocess.run(
            [*command, str(script)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "error", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
