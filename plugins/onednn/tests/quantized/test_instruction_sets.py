"""The same bits with fewer instructions: tests of this folder in processes limited to a set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from instruction_limits import VARIABLE

from dovetail_onednn import library

FAMILIES = (
    "conversions",
    "convolution",
    "elementwise",
    "images",
    "layer_norm",
    "local_response",
    "matrix",
    "movement",
    "normalization",
    "plain_norm",
    "planes",
    "pooling",
    "recurrent",
    "resampling",
    "softmax",
    "word_functions",
    "words",
)
FILES = [
    *(f"test_integer_{name}.py" for name in FAMILIES),
    "test_fused_integers.py",
    "test_pairs.py",
]
PRODUCTS = [f"test_integer_{name}.py" for name in ("convolution", "matrix", "recurrent", "words")]


@pytest.mark.parametrize(
    ("limit", "names"), [("AVX2", FILES), ("AVX512_CORE", FILES), ("AVX2_VNNI", PRODUCTS)]
)
def test_equal_to_definition(limit: str, names: list[str]) -> None:
    if library().instruction_set_name == "AVX2":
        pytest.skip("this processor has no more than AVX2, with which all tests run")
    environment = os.environ | {VARIABLE: limit}
    environment.pop("PYTEST_XDIST_WORKER", None)
    files = [str(Path(__file__).parent / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "passed" in done.stdout
