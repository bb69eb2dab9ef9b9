"""A declared input that no output depends on: it is fed, stored and listed, and has no effect."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from forked import run
from onnx import helper

import dovetail as dt

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
IDLE = np.array([[1 << 40]], np.int64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("idle", onnx.TensorProto.INT64, [1, 1]),
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3]),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "idle.onnx")
    return tmp_path / "idle.onnx"


def test_a_session_takes_what_onnx_runtime_takes(path: Path, tmp_path: Path) -> None:
    feeds = {"idle": IDLE, "x": X}
    peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (wanted,) = peer.run(None, feeds)
    dt.convert(path).save(tmp_path / "idle.dvt")
    for source in (path, tmp_path / "idle.dvt"):
        with dt.Session(source) as session:
            np.testing.assert_array_equal(session.run(feeds)["y"], wanted)


def test_quantizing_and_exporting_keep_it(path: Path, tmp_path: Path) -> None:
    feeds = {"idle": IDLE, "x": X}
    quantized = dt.quantize(dt.convert(path), calibration=[feeds])
    with dt.Session(quantized) as session:
        # 8 bits over the range 0 to 1
        np.testing.assert_allclose(session.run(feeds)["y"], np.maximum(X, 0), atol=1 / 128)
    dt.export(quantized, tmp_path / "out.onnx", "onnx-qdq")
    exported = onnx.load(tmp_path / "out.onnx")
    assert [i.name for i in exported.graph.input] == ["idle", "x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are forked")
def test_input_lists_name_it(path: Path) -> None:
    folder = path.parent
    IDLE.tofile(folder / "idle.raw")
    X.tofile(folder / "x.raw")
    (folder / "list.txt").write_text("idle:=idle.raw x:=x.raw\n")
    run("dovetail convert -i idle.onnx", folder).check_returncode()
    options = "--use_native_input_files --output_dir out"
    done = run(f"dovetail net-run --model idle.dvt --input_list list.txt {options}", folder)
    assert done.returncode == 0, done.stderr
    found = np.fromfile(folder / "out/Result_0/y.raw", np.float32).reshape(2, 3)
    np.testing.assert_array_equal(found, np.maximum(X, 0))
