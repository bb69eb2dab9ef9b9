"""`dovetail inspect` of traces."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from commands import Run


@pytest.mark.parametrize("name", ["folder", "packed.dvtrace", "packed.zip"])
def test_a_trace_is_shown_with_its_calls(
    name: str, trace: Path, tmp_path: Path, dovetail: Run
) -> None:
    path = trace
    if name != "folder":
        path = tmp_path / "packed.dvtrace"
        assert dovetail("trace", "pack", trace, "--out", path).code == 0
        path = path.rename(tmp_path / name)
    found = dovetail("inspect", path, "--json").data
    assert (found["kind"], found["file"], found["calls"]) == ("trace", str(path), 17)
    assert found["functions"] == dovetail("trace", "stats", path, "--json").data["functions"]
    info, stats = dovetail("trace", "info", path).out, dovetail("trace", "stats", path).out
    assert dovetail("inspect", path).out == f"{info}\n{stats}"


def test_options_for_models_are_rejected(trace: Path, dovetail: Run) -> None:
    done = dovetail("inspect", trace, "--layers")
    assert done.code == 2
    assert "--layers cannot be used" in done.err


def test_other_folders_and_archives_are_no_traces(tmp_path: Path, dovetail: Run) -> None:
    (tmp_path / "trace.json").write_text("{}")
    assert dovetail("inspect", tmp_path).code == 3
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("trace.json", "{}")
    done = dovetail("inspect", other)
    assert (done.code, "no installed frontend" in done.err) == (3, True)
    other.write_bytes(other.read_bytes()[:-10])
    assert dovetail("inspect", other).code == 3


def test_a_damaged_trace_is_an_error(trace: Path, dovetail: Run) -> None:
    (trace / "trace.json").write_text("{")
    done = dovetail("inspect", trace)
    assert (done.code, "not the header of a trace" in done.err) == (3, True)
