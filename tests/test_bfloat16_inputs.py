"""Arrays of bfloat16, as the package ml_dtypes has them, for a model of bfloat16."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, save

import dovetail as dt


def test_arrays_of_bfloat16_are_inputs(tmp_path: Path) -> None:
    infos = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [2, 3]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), path)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    with dt.Session(path) as session:
        found = session.run({"x": x})["y"]
        np.testing.assert_array_equal(found, np.maximum(x.astype(np.float32), 0))
        np.testing.assert_array_equal(session.run({"x": x.astype(np.float32)})["y"], found)


def test_they_are_samples(tmp_path: Path) -> None:
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", infos[:1], infos[1:])
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    samples = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 2, 3)
    made = [dt.quantize(path, samples.astype(t)) for t in (ml_dtypes.bfloat16, np.float32)]
    encodings = [next(iter(m.graphs.values())).tensor("x").encoding for m in made]
    assert encodings[0] == encodings[1]
