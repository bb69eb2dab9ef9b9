"""Models with large external data are converted in bounded memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.large_model import peak_bytes, write_large

MiB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak memory in /proc")
def test_memory_grows_with_the_largest_tensor(tmp_path: Path) -> None:
    # 3 GB of weights, which a conversion does not read
    base = peak_bytes(write_large(tmp_path, layers=12, width=8192))
    assert base < 400 * MiB  # the program itself has some 100 MB
    # 16 weights of 16 MiB: the mapped one and a transposed copy are in memory, no others
    source = write_large(tmp_path, layers=16, width=2048)
    assert peak_bytes(source, tmp_path / "large.dvt") < base + 3 * 16 * MiB
