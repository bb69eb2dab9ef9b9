"""`dovetail convert --dropout off` on a model exported in training mode."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from forked import run
from onnx import helper, numpy_helper

import dovetail as dt
from dovetail_onnx import OnnxOptions

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are forked")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    graph = helper.make_graph(
        [helper.make_node("Dropout", ["x", *values], ["y"], name="drop")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "drop.onnx")
    return tmp_path / "drop.onnx"


def test_a_model_in_training_mode_converts_with_dropout_off(path: Path) -> None:
    refused = run("dovetail convert -i drop.onnx", path.parent)
    assert refused.returncode == 4
    assert "--dropout off" in refused.stderr
    done = run("dovetail convert -i drop.onnx --dropout off", path.parent)
    assert done.returncode == 0, done.stderr
    x = np.array([-1, 0, 2], np.float32)
    for source in (path.with_suffix(".dvt"), dt.convert(path, OnnxOptions(dropout="off"))):
        with dt.Session(source) as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], x)


def test_other_values_are_refused(path: Path) -> None:
    done = run("dovetail convert -i drop.onnx --dropout maybe", path.parent)
    assert done.returncode == 2
    assert "--dropout: unsupported value 'maybe'; expected on or off" in done.stderr
