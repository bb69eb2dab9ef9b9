"""`dovetail convert` and `quantize` with an encodings file and no samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail as dt
from dovetail.cli import main
from dovetail.ir import DType, ScaleOffset

RNG = np.random.default_rng(23)
COMPLETE = {"x": 0.5, "conv": 0.25, "y": 0.125}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With `net.onnx`: a convolution, a Relu, a Flatten and a Gemm."""
    monkeypatch.chdir(tmp_path)
    weights = {
        "w": RNG.standard_normal((2, 1, 3, 3)),
        "b": RNG.standard_normal(2),
        "v": RNG.standard_normal((8, 3)),
        "c": RNG.standard_normal(3),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["conv"]),
            helper.make_node("Relu", ["conv"], ["cut"]),
            helper.make_node("Flatten", ["cut"], ["flat"]),
            helper.make_node("Gemm", ["flat", "v", "c"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
        [numpy_helper.from_array(np.asarray(w, np.float32), n) for n, w in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), "net.onnx")
    return tmp_path


def written(scales: dict[str, float]) -> str:
    entries = {n: {"bitwidth": 8, "scale": s, "offset": -128} for n, s in scales.items()}
    content = {"activation_encodings": entries, "param_encodings": {}}
    Path("given.json").write_text("// no samples\n" + json.dumps(content))
    return "given.json"


def test_convert_equals_quantize(folder: Path) -> None:
    options = ["--quantization_overrides", written(COMPLETE), "--bias_bitwidth", "32"]
    assert main(["convert", "-i", "net.onnx", "-o", "one.dvt", *options]) == 0
    assert main(["quantize", "-i", "net.onnx", "-o", "two.dvt", *options]) == 0
    assert Path("one.dvt").read_bytes() == Path("two.dvt").read_bytes()
    (graph,) = dt.load("one.dvt").graphs.values()
    by_source = {t.source: t for t in graph.tensors.values()}
    assert by_source["cut"].encoding == ScaleOffset(0.25, -128)
    assert by_source["c"].dtype is DType.SFIXED_POINT_32
    assert not any(t.dtype.is_float for t in graph.tensors.values())


@pytest.mark.parametrize("command", ["convert", "quantize"])
def test_all_that_lack_one_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    options = ["--quantization-overrides", written({"y": 0.125})]
    assert main([command, "-i", "net.onnx", "-o", "made.dvt", *options]) == 3
    said = capsys.readouterr().err
    assert "2 tensors without an encoding" in said
    assert "tensor 'x'" in said
    assert "tensor 'cut'" in said
    assert not Path("made.dvt").exists()


@pytest.mark.parametrize("command", ["convert", "quantize"])
def test_lenient(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    options = ["--quantization-overrides", written(COMPLETE | {"cutt": 0.5})]
    assert main([command, "-i", "net.onnx", "-o", "made.dvt", *options]) == 3
    said = capsys.readouterr().err
    assert "entry 'cutt'" in said
    assert "did you mean 'cut'" in said
    assert main([command, "-i", "net.onnx", "-o", "made.dvt", "--lenient", *options]) == 0
    assert "entry 'cutt'" in capsys.readouterr().err
