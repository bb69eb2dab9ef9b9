"""Runs while Python destroys objects, in a cycle or at the end of the process: none crashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Of its own process, in which the model is referenced by an object with `__del__`.
SCRIPT = """
import gc, os, sys
sys.path.insert(0, os.environ["TESTS"])
from conftest import Model

class Last:
    def __init__(self):
        self.model = Model()
        self.model.output(self.model.conv(self.model.input("x", 1, 8, 8, 16), "conv", 16))
        self.feeds = self.model.feeds()
        self.prepared = self.model.prepare()
        self.wanted = self.model.run(self.prepared, self.feeds)["conv"]

    def __del__(self):
        for _ in range(3):
            found = self.model.run(self.prepared, self.feeds)["conv"]
        print("same:", (found == self.wanted).all(), flush=True)

last = Last()
last.itself = last  # a cycle, which is collected last
"""
COLLECTED = """
del last
gc.collect()
"""


@pytest.mark.parametrize("end", ["", COLLECTED])
def test_runs_of_a_finalizer(end: str) -> None:
    here, path = os.path.dirname(__file__), os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + end],
        env={**os.environ, "TESTS": here, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "same: True\n"), done.stderr
