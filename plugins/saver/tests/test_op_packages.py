"""Traces with ops of packages that are not installed: `--op-packages` names their modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail as dt
from dovetail.cli.op_packages import load_op_packages
from dovetail.ir import DType, TensorKind
from dovetail.runtime import Backend

TWICE = """
from dovetail.ops import In, Op, OpPackage, Out

PACKAGE = OpPackage("my.ops", "1.0.0")


@PACKAGE.op("Twice")
class Twice(Op):
    inputs = (In("x"),)
    outputs = (Out("y"),)
    source = "a test"

    def infer(self, x, y):
        return x

    def reference(self, x):
        return x + x
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The module of the op package `my.ops`."""
    file = tmp_path / "twice.py"
    file.write_text(TWICE)
    return file


@pytest.fixture
def trace(tmp_path: Path, module: Path) -> Path:
    """A session with an op of `my.ops`."""
    (package,) = load_op_packages([str(module)])
    with dt.record(tmp_path / "trace"), Backend.create("cpu") as backend:
        backend.register_op_package(package)
        graph = backend.create_context().create_graph("g")
        x = graph.create_tensor("x", DType.FLOAT_32, (3,), TensorKind.APP_WRITE)
        y = graph.create_tensor("y", DType.FLOAT_32, (3,), TensorKind.APP_READ)
        graph.add_node("twice", "my.ops", "Twice", [x], [y])
        graph.finalize()
        graph.execute({"x": np.ones(3, np.float32)})
    return tmp_path / "trace"


@pytest.mark.parametrize("command", [("replay",), ("trace", "export", "model", "--out", "x.dvt")])
def test_a_package_that_is_missing(trace: Path, dovetail: Any, command: tuple[str, ...]) -> None:
    done = dovetail(*command, trace)
    assert done.code == 3
    assert "op package 'my.ops' 1.0.0 not found" in done.err
    assert "pass it with --op-packages" in done.err


def test_replay_and_bisect(trace: Path, module: Path, dovetail: Any) -> None:
    given = ("--op-packages", module)
    done = dovetail("replay", trace, "--compare", "exact", "--json", *given)
    assert (done.code, done.data["tensors"]) == (0, {"equal": 1})
    sides = ("--backend", "cpu", "--backend", "htp")
    assert dovetail("trace", "bisect", trace, *sides, *given).code == 0


def test_minimize(trace: Path, module: Path, tmp_path: Path, dovetail: Any) -> None:
    check = tmp_path / "check.py"
    words = "'Twice', 'register_op_package'"
    check.write_text(
        f"import sys\ncalls = open(sys.argv[1] + '/calls.jsonl').read()\n"
        f"sys.exit(all(word in calls for word in ({words})))\n"
    )
    command = ("--check", f"{sys.executable} {check}", "--op-packages", module)
    done = dovetail("trace", "minimize", trace, "--out", tmp_path / "small", *command)
    assert done.code == 0
    assert "graphs keep their nodes" not in done.err


def test_export_model(trace: Path, module: Path, tmp_path: Path, dovetail: Any) -> None:
    file = tmp_path / "twice.dvt"
    done = dovetail("trace", "export", "model", trace, "--out", file, "--op-packages", module)
    assert done.code == 0, done.err
    assert dt.load(file).op_packages == {"my.ops": "1.0.0"}


def test_export_python(
    trace: Path, module: Path, tmp_path: Path, dovetail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the script runs elsewhere
    export = ("trace", "export", "python", trace, "--out", tmp_path / "out", "--op-packages")
    assert dovetail(*export, "missing.py").code == 6
    assert not (tmp_path / "out").exists()
    assert dovetail(*export, f"./{module.name}:PACKAGE").code == 0
    script = [sys.executable, "-W", "error", str(tmp_path / "out" / "replay.py")]
    done = subprocess.run(script, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "as recorded\n"), done.stderr


def test_a_script_without_the_package(trace: Path, tmp_path: Path, dovetail: Any) -> None:
    assert dovetail("trace", "export", "python", trace, "--out", tmp_path / "out").code == 0
    script = [sys.executable, str(tmp_path / "out" / "replay.py")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "op package 'my.ops' 1.0.0 not found" in done.stderr
