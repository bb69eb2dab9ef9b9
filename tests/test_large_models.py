"""Models with large weights are converted in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak memory in /proc")
def test_weights_in_the_model_file_are_held_once(tmp_path: Path) -> None:
    peaks = []
    for layers, width in ((2, 64), (16, 2048)):
        source = write_large(tmp_path, layers, width)
        onnx.save(onnx.load(source), source)  # with the external data
        peaks.append(peak_bytes(source))
    small, large = peaks
    assert large - small < 1.25 * 16 * 16 * MiB  # 3 times the weights if protobuf parses them


# Runs a command, and prints the peak memory in KiB.
COMMAND = """
import sys
from dovetail.cli import main
assert main(sys.argv[1:]) == 0
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


def peak_of_command(*arguments: object) -> int:
    words = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak memory in /proc")
def test_commands_and_formats_of_qnn_take_as_little_memory(tmp_path: Path) -> None:
    peaks = []
    for layers, width in ((2, 64), (16, 2048)):  # in all, 256 MiB of 16 MiB each
        source = write_large(tmp_path, layers, width)
        dlc, cpp = tmp_path / "net.dlc", tmp_path / "net.cpp"
        steps = ((source, dlc), (source, cpp), (dlc, cpp), (cpp, dlc))
        peaks.append([peak_of_command("convert", "-i", a, "-o", b) for a, b in steps])
    for small, large in zip(*peaks, strict=True):
        assert large - small < 3 * 16 * MiB
