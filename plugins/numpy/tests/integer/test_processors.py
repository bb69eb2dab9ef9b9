"""Definitions return the same bits whatever instructions NumPy's functions use."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy._core import _multiarray_umath as umath

SCRIPT = Path(__file__).with_name("digests.py")
USED = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
EXPONENTIALS = "import numpy; print(numpy.exp(numpy.arange(-20, 20, 1e-3)).tobytes().hex())"


def output(*arguments, disabled=()):
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_digests_do_not_depend_on_instructions():
    if not USED:
        pytest.skip("NumPy has one set of instructions for this processor")
    plain = output(SCRIPT, disabled=USED).stdout
    for count in range(len(USED)):
        # newer instructions come last
        assert output(SCRIPT, disabled=USED[count + 1 :]).stdout == plain
    assert len(plain.splitlines()) > 150


def test_functions_of_library_do_depend_on_them():
    """Otherwise the test above shows nothing."""
    if not USED:
        pytest.skip("NumPy has one set of instructions for this processor")
    found = {output("-c", EXPONENTIALS, disabled=d).stdout for d in (USED, ())}
    if len(found) == 1:
        pytest.skip(f"NumPy {np.__version__} has one exponential function for this processor")
