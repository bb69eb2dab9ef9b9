"""Saver programs are read as data and replayed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.errors import TraceError
from dovetail.plugins import refresh
from dovetail.runtime.calls import CallRecord, differences
from dovetail_saver.replay import replay
from dovetail_saver.trace import OpaqueRecord, Trace
from dovetail_saver.vendor.importer import import_program
from dovetail_saver.vendor.summary import Summary

RELU = Path(__file__).parent / "programs" / "relu.c"
INPUT, DUMMY = bytes([0, 3, 5, 255]), bytes([9, 9, 9, 9])


def imported(
    tmp_path: Path, text: str, params: bytes = INPUT + DUMMY, **options: str
) -> tuple[Trace, Summary]:
    (tmp_path / "saver_output.c").write_text(text)
    (tmp_path / "params.bin").write_bytes(params)
    files = tmp_path / "saver_output.c", tmp_path / "params.bin"
    summary = import_program(*files, tmp_path / "trace", **options)
    return Trace(tmp_path / "trace"), summary


def records(trace: Trace) -> list[CallRecord]:
    return [entry.record for entry in trace if isinstance(entry.record, CallRecord)]


def test_a_program_is_replayed(tmp_path: Path) -> None:
    trace, summary = imported(tmp_path, RELU.read_text(), backend="cpu")
    played = list(replay(trace))
    assert [differences(p) for p in played] == [()] * len(played)
    (outputs,) = (p.result for p in played if p.record.function == "graph_execute")
    # (q - 3) * 0.5, at least 0, in steps of 0.25
    np.testing.assert_array_equal(outputs["y"], [[[0, 0], [4, 255]]])
    assert summary.calls["graph_create_tensor"] == 2
    assert summary.unread_bytes == 0


def test_a_call_that_we_do_not_have_is_opaque(tmp_path: Path) -> None:
    trace, summary = imported(tmp_path, RELU.read_text())
    (opaque,) = (e.record for e in trace if isinstance(e.record, OpaqueRecord))
    assert opaque.name == "deviceGetInfrastructure"
    assert "interface.deviceGetInfrastructure(&deviceInfra_0)" in opaque.text
    line = (
        RELU.read_text()
        .splitlines()
        .index("   VALIDATE(error, interface.deviceGetInfrastructure(&deviceInfra_0));")
    )
    assert summary.left_out[0][0].endswith(f"saver_output.c:{line + 1}")
    assert summary.left_out_count == 1


def test_dummy_outputs_are_not_recorded(tmp_path: Path) -> None:
    trace, _ = imported(tmp_path, RELU.read_text())
    (execute,) = (r for r in records(trace) if r.function == "graph_execute")
    assert bytes(trace.payloads.get(execute.payloads[0]).bytes) == INPUT
    assert len(execute.payloads) == 1


def test_the_backend_is_chosen_by_name(tmp_path: Path) -> None:
    trace, _ = imported(tmp_path, RELU.read_text(), backend="cpu")
    assert trace.header.backends == ("cpu",)
    assert b'"name":"cpu"' in bytes(records(trace)[0].arguments)


def test_a_backend_that_is_not_installed(
    tmp_path: Path, dovetail: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params.bin").write_bytes(INPUT + DUMMY)
    command = ("trace", "import", RELU, tmp_path / "params.bin", "--out", tmp_path / "trace")
    done = dovetail(*command, "--backend", "hpt")
    assert done.code == 6
    assert "'hpt'" in done.err
    assert "'htp'" in done.err  # the nearest name
    assert not (tmp_path / "trace").exists()
    monkeypatch.setenv("DOVETAIL_PLUGINS", "dovetail-saver,trace,saver")
    refresh()
    try:
        done = dovetail(*command)
    finally:
        monkeypatch.undo()
        refresh()
    assert done.code == 0
    assert "backend 'htp' is not installed" in done.err
    assert Trace(tmp_path / "trace").header.backends == ("htp",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("int main", "int start", "no function 'main'"),
        ("tensor_1_dims[] = {1, 2, 2}", "tensor_1_dims[] = {1, 2}", "expected 3 numbers, got 2"),
        ("g_tensor_0_dims[] = ", "other[] = ", "'g_tensor_0_dims' is not declared"),
        ("graphCreate(context_0", "graphCreate(backend_0", "is a backend, not a context"),
        ("Qnn_GraphHandle_t g;", "", "'g' is not declared"),
        ("static uint8_t g_inputTensor_0_0_data[4]", "static uint8_t g_inputTensor_0_0_data[3]",
         "4 bytes do not fit"),
        ("fread(g_outputTensor_0_0_data, 1, 4, fp)", "fread(g_outputTensor_0_0_data, 1, 5, fp)",
         "do not fit"),
        ("(void*)g_inputTensor_0_0_data, 4", "(void*)g_inputTensor_0_0_data, 5",
         "has 4 bytes, but a buffer of 5"),
        ("&g_tensor_1));", "&g_tensor_0));", "no id of a tensor"),
        ("if (fclose(fp)) error = -1;", "if (fclose(fp)) {", "without an end"),
        ("return error == 0 ? 0 : 1;\n}", "", "cannot be read|without an end"),
    ],
)  # fmt: skip
def test_a_wrong_program_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = RELU.read_text()
    assert old in text
    with pytest.raises(TraceError, match=message) as failure:
        imported(tmp_path, text.replace(old, new, 1))
    assert "saver_output.c:" in failure.value.where
    assert not (tmp_path / "trace").exists()


def test_cut_off_payloads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="ends at byte 8 of the payloads, which have 7"):
        imported(tmp_path, RELU.read_text(), (INPUT + DUMMY)[:-1])
