"""The files that the exporters write: whole, the same every time, weights apart where asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exported import run

from dovetail.errors import ContainerError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops.exporter import Exporter
from dovetail_onnx import OnnxFrontend
from dovetail_onnx.exporter import OnnxExporter, OnnxExportOptions, OnnxQdqExporter, _file
from dovetail_opset.build import add, static


def network() -> Graph:
    """Two products with weights of 64 KB and 80 bytes."""
    rng = np.random.default_rng(3)
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 128), TensorKind.APP_WRITE))
    large = static(graph, "large", rng.normal(0, 0.1, (128, 128)).astype(np.float32))
    odd = static(graph, "odd", rng.normal(0, 0.1, (5, 128)).astype(np.float32))
    hidden = add(graph, "FullyConnected", [x, large], name="first")
    y = Tensor("y", DType.FLOAT_32, (2, 5), TensorKind.APP_READ)
    add(graph, "FullyConnected", [hidden, odd], name="second", outputs=y)
    return graph


@pytest.mark.parametrize("exporter", [OnnxExporter(), OnnxQdqExporter()], ids=lambda e: e.name)
def test_equal_graphs_give_equal_bytes(tmp_path: Path, exporter: Exporter) -> None:
    assert isinstance(exporter, Exporter)
    for name in ("a.onnx", "b.onnx"):
        exporter.export(network(), tmp_path / name, OnnxExportOptions())
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    OnnxExporter().export(network(), tmp_path / "one.onnx", OnnxExportOptions())
    OnnxExporter().export(network(), tmp_path / "two.onnx", OnnxExportOptions(external_data=True))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.onnx", "two.onnx", "two.onnx.data"]
    assert (tmp_path / "two.onnx").stat().st_size < 2000
    onnx.checker.check_model(str(tmp_path / "two.onnx"), full_check=True)
    one, two = (onnx.load(tmp_path / name) for name in ("one.onnx", "two.onnx"))
    feeds = {"x": np.random.default_rng(4).normal(0, 1, (2, 128)).astype(np.float32)}
    np.testing.assert_array_equal(run(one, feeds)[0], run(two, feeds)[0])
    # every weight lies at a page, where it can be mapped, and our own frontend finds it
    for tensor in onnx.load(tmp_path / "two.onnx", load_external_data=False).graph.initializer:
        place = {entry.key: entry.value for entry in tensor.external_data}
        assert int(place.get("offset", 0)) % 4096 == 0
    (graph,) = OnnxFrontend().read(tmp_path / "two.onnx")
    assert [t.name for t in graph.outputs] == ["y"]


def test_what_a_model_file_cannot_hold_goes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_file, "_MOST_BYTES", 64_000)  # 2 GiB would take a minute to write
    OnnxExporter().export(network(), tmp_path / "net.onnx", OnnxExportOptions())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]


@pytest.mark.parametrize("external", [False, True])
def test_nothing_is_left_of_a_failed_export(tmp_path: Path, external: bool) -> None:
    (tmp_path / "taken.onnx").mkdir()
    options = OnnxExportOptions(external_data=external)
    with pytest.raises(ContainerError) as caught:
        OnnxExporter().export(network(), tmp_path / "taken.onnx", options)
    assert caught.value.code == "FILE_UNWRITABLE"
    assert [p.name for p in tmp_path.iterdir()] == ["taken.onnx"]
