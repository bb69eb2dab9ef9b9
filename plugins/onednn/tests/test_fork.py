"""After a fork: what was prepared before it is refused, what is prepared later works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Run by a process of its own, since a fork of the test process would carry its threads along.
SCRIPT = """
import os, sys
sys.path.insert(0, os.environ["TESTS"])
from conftest import Model
from dovetail.errors import BackendError

def built():
    model = Model()
    model.output(model.conv(model.input("x", 1, 32, 32, 64), "conv", 64))
    return model, model.feeds()

model, feeds = built()
prepared = model.prepare()
wanted = model.run(prepared, feeds)["conv"]
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    model.run(prepared, feeds)
except BackendError as error:
    print("refused:", error.message)
again, feeds = built()
print("same:", (again.run(again.prepare(), feeds)["conv"] == wanted).all(), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing to fork on this platform")
def test_used_after_fork() -> None:
    here, path = os.path.dirname(__file__), os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT],
        env={**os.environ, "TESTS": here, "PYTHONPATH": path, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    refused, same = ran.stdout.splitlines()
    assert "forked after this was prepared" in refused
    assert same == "same: True"
