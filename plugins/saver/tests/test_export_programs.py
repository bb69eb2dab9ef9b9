"""Traces are written as programs and read back."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from drawn_sessions import Sessions, write_session
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container.entries import ArrayReader, load_encoding
from dovetail.runtime.calls import BackendReference, CallRecord, differences
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.values import ArrayValue, arguments_decoder
from dovetail_saver.replay import replay
from dovetail_saver.trace import OpaqueRecord, Trace
from dovetail_saver.vendor.exporter import export_program
from dovetail_saver.vendor.importer import import_program

HERE = Path(__file__).parent
GCC = ("gcc", "-std=c11", "-Wall", "-fsyntax-only", "-I", HERE / "headers")
FILES = ("calls.jsonl", "params.bin")


def round_trip(trace: Path, folder: Path) -> Path:
    """Return the folder of a trace that was written as a program in `folder`, and imported."""
    export_program(trace, folder)
    import_program(folder / "saver_output.c", folder / "params.bin", folder / "trace")
    return folder / "trace"


def creations(folder: Path) -> list[tuple[object, ...]]:
    """Return what the created tensors of a trace are."""
    trace, found = Trace(folder), []
    for entry in trace:
        record = entry.record
        if isinstance(record, CallRecord) and record.function.endswith("create_tensor"):
            values = arguments_decoder(record.function).decode(record.arguments)
            blobs = RecordedBlobs(record.payloads, trace.payloads, "")
            encoding = values.encoding
            if encoding is not None:
                encoding = load_encoding(encoding, ArrayReader(blobs, ""))
            data = values.data
            if data is not None and not isinstance(data, ArrayValue):
                data = blobs[data.payload].hash
            kept = values.name, values.dtype, values.shape, values.kind, encoding, data
            found.append((record.function, *kept, getattr(values, "dynamic", None)))
    return found


@settings(max_examples=40)
@given(st.data())
def test_import_restores_what_was_imported(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_session(folder / "drawn", data.draw)
        first = round_trip(folder / "drawn", folder / "one")
        second = round_trip(first, folder / "two")
        for file in FILES:
            assert (first / file).read_bytes() == (second / file).read_bytes()
        wanted, found = creations(folder / "drawn"), creations(first)
        params = [each for each in found if each not in wanted]
        assert [each for each in found if each in wanted] == wanted
        assert len(params) <= 2  # params of nodes are created, too: one for each graph
        opaque = [e.record for e in Trace(first) if isinstance(e.record, OpaqueRecord)]
        assert [each.name for each in opaque] == ["profile_clear"] * 2


@settings(max_examples=5)
@given(st.data())
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_program_is_c(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_session(folder / "drawn", data.draw)
        export_program(folder / "drawn", folder / "program")
        done = subprocess.run(
            [*GCC, folder / "program" / "saver_output.c"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr


def test_an_exported_session_is_replayed(trace: Path, tmp_path: Path) -> None:
    export_program(trace, tmp_path / "program")
    files = tmp_path / "program" / "saver_output.c", tmp_path / "program" / "params.bin"
    import_program(*files, tmp_path / "again", "cpu")
    wanted = [p.result["y"] for p in replay(Trace(trace)) if p.record.function == "graph_execute"]
    played = list(replay(Trace(tmp_path / "again")))
    assert [differences(p) for p in played] == [()] * len(played)
    found = [p.result["y"] for p in played if p.record.function == "graph_execute"]
    assert [each.tolist() for each in found] == [each.tolist() for each in wanted]
    assert len(found) == 3


def test_a_payload_is_written_once(trace: Path, tmp_path: Path) -> None:
    summary = export_program(trace, tmp_path)
    assert (tmp_path / "params.bin").stat().st_size == 4 * 24  # a constant and three inputs
    assert summary.calls["graph_execute"] == 3


def test_names_cannot_become_code(tmp_path: Path) -> None:
    hostile = 'x"; system("ls"); // \\\n"??/'
    session = Sessions(tmp_path / "drawn")
    with session.writer:
        backend = session.call("backend_create", name=BackendReference("htp"))
        context = session.call("context_create", backend)
        session.call("graph_create", context, name=hostile)
        session.writer.write(OpaqueRecord(number=3, name="other", text=f"*/ {hostile}"))
    export_program(tmp_path / "drawn", tmp_path / "one")
    text = (tmp_path / "one" / "saver_output.c").read_text()
    assert r'"x\"; system(\"ls\"); // \\\n\"\?\?/"' in text
    (comment,) = (line for line in text.splitlines() if "other" in line)
    assert comment.startswith("   // ")
    assert comment.endswith("}")  # no line that goes on in the next
    first = round_trip(tmp_path / "drawn", tmp_path / "two")
    records = [entry.record for entry in Trace(first)]
    assert msgspec.json.decode(records[2].arguments)["name"] == hostile
    assert records[3].text == f"*/ {hostile}"


def test_names_of_files_cannot_become_code(trace: Path, tmp_path: Path) -> None:
    export_program(trace, tmp_path, payloads_name='a"; system("ls"); "')
    text = (tmp_path / "saver_output.c").read_text()
    assert r'fopen("a\"; system(\"ls\"); \"", "rb")' in text
    assert text.count("system") == 1


def test_a_command_exports_and_another_imports(
    trace: Path, tmp_path: Path, dovetail: Callable[..., Any]
) -> None:
    done = dovetail("trace", "export", "saver-c", trace, "--out", tmp_path / "c", "--json")
    assert done.code == 0
    assert done.data["calls"]["graph_add_node"] == 3
    files = tmp_path / "c" / "saver_output.c", tmp_path / "c" / "params.bin"
    done = dovetail("trace", "import", *files, "--out", tmp_path / "again", "--backend", "cpu")
    assert done.code == 0
    assert "17 calls on backend cpu" in done.out
    assert dovetail("replay", tmp_path / "again").code == 0


def test_an_import_that_fails_exits_with_3(tmp_path: Path, dovetail: Callable[..., Any]) -> None:
    (tmp_path / "a.c").write_text("int start(void) {}")
    (tmp_path / "a.bin").write_bytes(b"")
    done = dovetail(
        "trace", "import", tmp_path / "a.c", tmp_path / "a.bin", "--out", tmp_path / "t"
    )
    assert done.code == 3
    assert "no function 'main'" in done.err
