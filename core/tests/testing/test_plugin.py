"""The pytest plugin: what its options name, what it counts, and what it writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import forked
import pytest

HELPERS = Path(__file__).parents[1] / "helpers"
SUITE = ["-p", "dovetail.testing.plugin", "-p", "no:cacheprovider", "--pyargs"]

CASES = """
import numpy as np
from dovetail.ir import DType
from dovetail.testing import OpCase, typed
from reference_backend import PACKAGE

x = np.ones((2, 3), np.float32)
good = OpCase("Scale", (x,), x * 2, package="test.ops")
wide = OpCase("Scale", (x.astype(np.float64),), x * 2.0, name="wide", package="test.ops")
wrong = OpCase("Scale", (x,), x * 3, {"factor": 2.0}, name="wrong", package="test.ops")
CASES = [good, wide]
ALL = [good, wide, wrong]
TWICE = [good, good]
NUMBER = 1
"""

DEAD = """
from reference_backend import ReferenceBackend

class Dead(ReferenceBackend):
    name = "dead"

    def __init__(self, ops, options):
        raise OSError("gone")
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "my_cases.py").write_text(CASES)
    command = ["pytest", *SUITE, "dovetail.testing.suite", *options]
    return forked.run(command, folder, path=(HELPERS, folder))


PACKAGE = ("--op-package", "my_cases:PACKAGE")
BACKEND = ("--backend", "reference_backend:ReferenceBackend")


def test_a_backend_and_a_package_that_are_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    cases = ("--cases", "my_cases:ALL", "--conformance-json", str(path))
    done = run(tmp_path, *BACKEND, *PACKAGE, *cases)
    assert done.returncode == 1, done.stdout + done.stderr
    data: dict[str, Any] = json.loads(path.read_text())
    assert data["title"] == "backend 'reference' and op package 'test.ops'"
    rows = [r for r in data["results"] if r["area"] == "op cases"]
    by_name = {r["name"]: (r["status"], r["reason"]) for r in rows}
    assert by_name["Scale"] == ("passed", None)
    assert by_name["Scale-wide"][0] == "unsupported"
    assert "no-float64" in by_name["Scale-wide"][1]
    assert by_name["Scale-wrong"][0] == "failed"
    assert "6 of 6 elements differ" in by_name["Scale-wrong"][1]
    counted = data["areas"]["op cases"]
    assert counted == {"passed": 1, "unsupported": 1, "failed": 1}
    assert sum(data["total"].values()) == len(data["results"])
    assert set(data["without_case"]) == {"test.ops::Wait", "test.ops::Fail"}
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["op", "cases", "1", "1", "1"] in lines
    assert ["op", "passed", "unsupported", "failed"] in lines
    assert any("conformance of backend 'reference'" in line for line in done.stdout.splitlines())


def test_a_backend_alone_needs_no_cases(tmp_path: Path) -> None:
    done = run(tmp_path, *BACKEND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "op cases" not in done.stdout
    assert "life cycle" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--backend", "my_backends:Dead"),
            "'dead': the backend cannot be started: OSError: gone",
        ),
        ((), "needs --backend NAME or --op-package NAME"),
        (("--backend", "reference_backend:ReferenceBackened"), "did you mean 'ReferenceBackend'?"),
        ((*BACKEND, "--backend-options", '{"leve": 1}'), "did you mean 'level'?"),
    ],
)
def test_what_is_not_there_ends_the_run(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "report.json"
    path.write_text("of an earlier run")
    (tmp_path / "my_backends.py").write_text(DEAD)
    done = run(tmp_path, *options, "--conformance-json", str(path))
    assert message in done.stdout + done.stderr
    assert done.returncode == 4, done.stdout + done.stderr
    assert not path.exists()


def test_the_plugin_leaves_other_tests_alone(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_it():\n    pass\n")
    done = forked.run(["pytest", *SUITE[:4], "test_other.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformance" not in done.stdout
