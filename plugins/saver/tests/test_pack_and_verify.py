"""`dovetail trace pack` and `verify`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def packed(trace: Path, tmp_path: Path, dovetail: Any) -> Path:
    done = dovetail("trace", "pack", trace, "--out", tmp_path / "t.dvtrace")
    assert done.code == 0, done.err
    return tmp_path / "t.dvtrace"


def test_every_command_reads_a_packed_trace(
    trace: Path, packed: Path, tmp_path: Path, dovetail: Any
) -> None:
    assert dovetail("replay", packed, "--compare", "exact", "--json").data["tensors"] == {
        "equal": 3
    }
    assert dovetail("trace", "info", packed, "--json").data["calls"] == 17
    assert dovetail("trace", "stats", packed, "--json").data["payloads"] == 7
    assert dovetail("trace", "verify", packed).code == 0
    assert dovetail("trace", "diff", trace, packed).code == 0
    assert dovetail("trace", "dump", packed).out == dovetail("trace", "dump", trace).out
    out = tmp_path / "out"
    assert dovetail("trace", "trim", packed, "--calls", "12", "--out", out).code == 0
    assert dovetail("trace", "verify", out).code == 0
    assert packed.stat().st_size < sum(f.stat().st_size for f in trace.iterdir())


def test_packing_is_reproducible_and_can_be_unpacked(
    trace: Path, packed: Path, tmp_path: Path, dovetail: Any
) -> None:
    again = tmp_path / "again.dvtrace"
    assert dovetail("trace", "pack", packed, "--out", again).code == 0
    assert again.read_bytes() == packed.read_bytes()
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "folder")
    for file in trace.iterdir():
        assert (tmp_path / "folder" / file.name).read_bytes() == file.read_bytes()


def test_damaged_packed_traces_are_reported(packed: Path, dovetail: Any) -> None:
    whole = packed.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 3):
        packed.write_bytes(whole[:size])
        for command in (("trace", "stats"), ("trace", "verify"), ("replay",)):
            assert dovetail(*command, packed).code == 3, size
    for position in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        packed.write_bytes(damaged)
        assert dovetail("trace", "verify", packed).code in (0, 3), position


def test_payloads_that_are_compressed_are_rejected(
    trace: Path, tmp_path: Path, dovetail: Any
) -> None:
    file = tmp_path / "zipped.dvtrace"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in trace.iterdir():
            archive.write(each, each.name)
    done = dovetail("replay", file)
    assert done.code == 3
    assert "dovetail trace pack" in done.err


def test_verify_lists_every_fault(trace: Path, dovetail: Any) -> None:
    assert dovetail("trace", "verify", trace).code == 0
    params = trace / "params.bin"
    content = bytearray(params.read_bytes())
    content[0] ^= 1
    params.write_bytes(content)
    calls = trace / "calls.jsonl"
    lines = calls.read_bytes().splitlines(keepends=True)
    found = next(i for i, line in enumerate(lines) if b'"context_create"' in line)
    del lines[found]
    calls.write_bytes(b"".join(lines))
    done = dovetail("trace", "verify", trace, "--json")
    assert done.code == 3
    assert "is damaged" in done.out + done.err
    assert "no call has returned the handle" in done.out + done.err
    assert "the mark counts 17 calls, but there are 16" in done.out + done.err
