"""DLC files from end to end: the commands, and the quantizer on encodings that a file states."""

from __future__ import annotations

from pathlib import Path

import forked
import numpy as np
import pytest
from dlc_files import float_graph, small_graph, write_dlc

import dovetail
from dovetail.ir import DType, Graph, ScaleOffset, Spec


def stated(graph: Graph) -> Graph:
    """Return the float graph with encodings for all activations."""
    for name, scale, offset in (("x", 0.05, -128), ("y", 0.125, -100), ("z", 0.0625, -16)):
        spec = graph.tensor(name).spec
        encoding = ScaleOffset(scale, offset)
        graph.source_encodings[name] = Spec(DType.UFIXED_POINT_8, spec.shape, encoding)
    return graph


def test_a_float_file_with_encodings_is_quantized_without_samples(tmp_path: Path) -> None:
    path = write_dlc(stated(float_graph()), tmp_path / "net.dlc")
    dovetail.convert(path).save(tmp_path / "net.dvt")
    wanted = {n: s.encoding for n, s in stated(float_graph()).source_encodings.items()}
    for source in (path, tmp_path / "net.dvt"):
        quantized = dovetail.quantize(dovetail.load_model(source))
        graph = quantized.graphs["net"]
        found = {
            t.source: t.encoding
            for t in graph.tensors.values()
            if t.dtype is DType.UFIXED_POINT_8 and t.source in wanted
        }
        assert found == wanted
        assert graph.tensor("w").dtype.is_fixed_point
    x = np.random.default_rng(0).uniform(-5, 5, (2, 8)).astype(np.float32)
    with dovetail.Session(path) as exact, dovetail.Session(quantized, backend="htp") as session:
        expected, found_z = (next(iter(s.run({"x": x}).values())) for s in (exact, session))
    inside = np.abs(expected - 7.5) < 7  # within the stated range
    assert np.abs(found_z - expected)[inside].max() < 0.5  # some steps of y
    assert inside.sum() > 100


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, graph in (("a", small_graph("first")), ("b", small_graph("second"))):
        write_dlc(graph, tmp_path / f"{name}.dlc")
    x = np.random.default_rng(1).normal(size=(1, 4, 4, 2)).astype("<f4")
    x.tofile("x.raw")
    Path("list.txt").write_text("x.raw\n")
    Path("lists.txt").write_text("x.raw\n")
    for line in (
        "dovetail convert --input_network a.dlc -o a.dvt",
        "dovetail net-run --model a.dlc --backend htp --input-list list.txt --output-dir one",
        "dovetail net-run --model libQnnModelDlc.so --dlc-path a.dlc,b.dlc --backend htp "
        "--input-list list.txt,lists.txt --output-dir two",
        "dovetail export a.dvt -o again.dlc --format dlc",
    ):
        done = forked.run(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    with dovetail.Session("again.dlc", backend="htp") as session:
        (expected,) = session.run({"x": x}).values()
    outputs = sorted(Path().glob("*/**/*.raw"))
    assert len(outputs) == 3
    for path in outputs:
        np.testing.assert_array_equal(np.fromfile(path, "<f4"), expected.reshape(-1))
