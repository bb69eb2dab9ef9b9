"""Programs of the vendor's form on several backends, and their comparison with the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.program_import import measure
from benchmarks.vendor import trace_summary
from benchmarks.vendor.summary import NodeResult, op_rows
from benchmarks.vendor.trace_summary import TraceResult
from benchmarks.vendor.traces import compare_nodes, moved, replay_program
from trained import INPUT, TRAINED, calibration

import dovetail as dt
from dovetail.ir import DType, Graph, Node, ScaleOffset, Tensor, TensorKind
from dovetail_saver.vendor.exporter import export_program

IMAGES = calibration(4)[:, None]
RELU = Path(__file__).parents[1] / "plugins" / "saver" / "tests" / "programs" / "relu.c"


def quantized() -> dt.Model:
    options = {"use_per_channel_quantization": True, "bias_bitwidth": 32}
    return dt.quantize(dt.convert(TRAINED["digits"].path), IMAGES, **options)


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """The program of a quantized network, and its outputs on the emulated HTP."""
    model = quantized()
    with dt.record(tmp_path / "trace"), dt.Session(model, backend="htp") as session:
        found = [next(iter(session.run({INPUT: image}).values())) for image in IMAGES]
    export_program(tmp_path / "trace", tmp_path / "program")
    return tmp_path / "program", np.stack(found)


@pytest.mark.parametrize("backend", ["htp", "cpu"])
def test_a_quantized_network_returns_from_c(program: tuple[Path, np.ndarray], backend: str) -> None:
    folder, wanted = program
    found = replay_program(folder=str(folder), backend=backend, outputs=str(folder / "o.npz"))
    assert found["rejected"] == []
    assert found["is_exact"]
    with np.load(folder / "o.npz") as arrays:
        (outputs,) = arrays.values()
    assert outputs.dtype == np.uint8  # stored values: the session dequantizes them
    encoding = next(iter(quantized().graphs.values())).outputs[0].encoding
    assert isinstance(encoding, ScaleOffset)
    real = (outputs.astype(np.float32) + encoding.offset) * np.float32(encoding.scale)
    np.testing.assert_allclose(real, wanted, atol=encoding.scale / 100)


def test_a_program_of_the_vendors_form_runs_on_the_emulated_htp(tmp_path: Path) -> None:
    (tmp_path / "saver_output.c").write_bytes(RELU.read_bytes())
    (tmp_path / "params.bin").write_bytes(bytes([0, 3, 5, 255, 9, 9, 9, 9]))
    found = replay_program(folder=str(tmp_path), backend="htp", outputs=str(tmp_path / "o.npz"))
    assert (found["rejected"], found["left_out"], found["is_exact"]) == ([], 1, True)
    with np.load(tmp_path / "o.npz") as arrays:
        assert arrays["y"].tolist() == [[[[0, 0], [4, 255]]]]


def test_nodes_of_a_program_are_compared(tmp_path: Path) -> None:
    (tmp_path / "saver_output.c").write_bytes(RELU.read_bytes())
    (tmp_path / "params.bin").write_bytes(bytes([0, 3, 5, 255, 9, 9, 9, 9]))
    replay_program(folder=str(tmp_path), backend="cpu", outputs=str(tmp_path / "o.npz"))
    theirs = np.array([[[[0, 0], [4, 254]]]], np.uint8), np.array([[[[0, 3], [5, 255]]]], np.uint8)
    np.savez(tmp_path / "theirs.npz", **{"0": theirs[0], "1": theirs[1]})
    (found,) = compare_nodes(
        trace=str(tmp_path / "cpu"), outputs=str(tmp_path / "theirs.npz"), names=["y", "x"]
    )
    assert (found["op_type"], found["counts"]) == ("Relu", (3, 1))


def test_values_pass_through_nodes_that_only_move_them() -> None:
    graph, scale = Graph("g"), ScaleOffset(0.5)
    shapes = {"a": (2, 3), "b": (3, 2), "c": (6,), "other": (6,)}
    a, b, c, other = (
        graph.add_tensor(
            Tensor(n, DType.UFIXED_POINT_8, s, TensorKind.NATIVE,
                   encoding=ScaleOffset(0.25) if n == "other" else scale)
        )
        for n, s in shapes.items()
    )  # fmt: skip
    perm = Tensor.static("p", np.array([1, 0], np.uint32))
    graph.add_node(Node("t", "qti.aisw", "Transpose", [a], [b], {"perm": perm}))
    graph.add_node(Node("r", "qti.aisw", "Reshape", [b], [c]))
    graph.add_node(Node("q", "qti.aisw", "Reshape", [c], [other]))
    known = np.arange(6, dtype=np.uint8).reshape(1, 3, 2)
    found = moved(graph, {"b": known})
    assert found["a"].tolist() == [[[0, 2, 4], [1, 3, 5]]]
    assert found["c"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert "other" not in found  # of another encoding: the node computes


def test_targets_of_programs() -> None:
    result = TraceResult(
        calls=9, nodes=2, left_out=0, c_mb=1, params_mb=1, import_ms=1, is_exact=True,
        executions=2, htp_db=30, cpu_db=29, theirs_db=30.2,
    )  # fmt: skip
    rows = op_rows(
        {"a": [NodeResult("n", "Relu", ("UFIXED_POINT_8",), "definition", (1, 1, 1), 0)]}
    )
    found = {t.label: t.is_met for t in trace_summary.targets(rows, {"a": result}, 1)}
    assert found == {
        "programs replayed": False,
        "programs exported and imported exactly": True,
        "program's Relu within 1": False,
        "a, replay on htp, SQNR above vendor's": True,
        "a, replay on cpu, SQNR above vendor's": False,
    }
    assert "30.20" in trace_summary.trace_table({"a": result})


def test_the_import_is_measured_beside_tokens(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(8))
    found = measure(RELU, tmp_path / "a.bin", rounds=1)
    assert found.tokens > 500
    assert found.ratio == pytest.approx(found.import_ms / found.tokenize_ms)
