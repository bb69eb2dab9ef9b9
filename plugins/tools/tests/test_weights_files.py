"""`weights compare` on the files of weights that converters write."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import forked
import numpy as np
import pytest


def write(path: Path, **weights: np.ndarray) -> None:
    with tarfile.open(path, "w") as tar:
        for name, values in weights.items():
            entry = tarfile.TarInfo(f"{name}.raw")
            entry.size = values.nbytes
            tar.addfile(entry, io.BytesIO(values.tobytes()))


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    a, b, none = np.arange(6, dtype="<f4"), np.ones(300, "<f4"), np.empty(0)
    write(tmp_path / "first.bin", a=a, b=b, none=none)
    write(tmp_path / "second.bin", a=a, b=b + 1, none=none, c=b)


def test_weights_are_compared_by_name_and_content(tmp_path: Path) -> None:
    done = forked.run("dovetail weights compare first.bin second.bin --check", tmp_path)
    assert done.returncode == 1, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    for line in (["identical", "2"], ["different", "1"], ["only", "in", "second.bin", "1"]):
        assert line in lines
    assert "by content: 3 and 4 different ones, 3 in both" in done.stdout
    same = forked.run("dovetail weights compare first.bin first.bin --check", tmp_path)
    assert same.returncode == 0


@pytest.mark.parametrize("size", [700, 1500])
def test_a_damaged_file_is_an_error(tmp_path: Path, size: int) -> None:
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes((tmp_path / "first.bin").read_bytes()[:size])
    done = forked.run("dovetail weights compare first.bin damaged.bin", tmp_path)
    assert done.returncode == 3
    assert "damaged.bin" in done.stderr
