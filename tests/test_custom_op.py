"""The example of a third party's op: its own tests, and every command of its README."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import forked
import numpy as np
import pytest

from dovetail.errors import PluginError
from dovetail_gpu.driver import devices

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "custom_op"
INSTALL = "pip install ./examples/custom_op"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed in it, as pip installs any wheel."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--no-build-isolation", "--no-compile"]
    subprocess.run([*command, "--target", str(folder), str(EXAMPLE)], check=True, timeout=120)
    return folder


def run(command: str | Sequence[str], folder: Path, site: Path | None) -> str:
    """Run a command, with the example installed or without it, and return what it prints."""
    done = forked.run(command, folder, path=[] if site is None else [site])
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def devices_or_none() -> tuple[object, ...]:
    """Return the OpenCL devices."""
    try:
        return devices()
    except PluginError:
        return ()


def test_its_own_tests(site: Path, tmp_path: Path) -> None:
    # from outside the repository, whose pytest settings are not the example's
    shutil.copytree(EXAMPLE, tmp_path / "custom_op")
    tests = str(tmp_path / "custom_op")
    command = ["pytest", "-q", "-W", "error", "-p", "no:cacheprovider", tests]
    told = run(command, tmp_path, site)
    assert re.search(r"\b\d{2} passed", told), told
    # those of its kernel for gpu, where there is no OpenCL device
    assert "skipped" not in told or not devices_or_none()


def test_every_command_of_its_readme(site: Path, tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("output")
    )
    blocks = re.findall(r"```console\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.S)
    installed, brought = ([line[2:] for line in b.splitlines()] for b in blocks)
    assert installed.pop(0) == INSTALL
    told = [run(line, tmp_path, site) for line in installed]
    assert re.search(
        r"audio.snake +cpu \(snake-ops\), gpu \(snake-ops\) +onnx:com.example.audio \(snake-ops\)",
        told[0],
    )
    assert "audio.snake::Snake" in told[3]
    for line in brought:
        assert "audio.snake" not in run("dovetail plugins", tmp_path, None)
        run(line, tmp_path, None)
    both = [
        np.fromfile(tmp_path / name / "output" / "Result_0" / "out.raw", np.float32)
        for name in ("wave", "plain")
    ]
    assert np.ptp(both[0]) > 0.1
    # the logarithm of alpha is rounded once more
    np.testing.assert_allclose(both[0], both[1], rtol=1e-5, atol=1e-5)
