"""Indices of 64 bits that are known only at run time: out of range, they do not wrap."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import OpError

N = helper.make_node
X = np.arange(6, dtype=np.float32).reshape(3, 2)
NODES = {
    "Gather": N("Gather", ["x", "i"], ["y"]),
    "GatherElements": N("GatherElements", ["x", "i"], ["y"]),
    "GatherND": N("GatherND", ["x", "i"], ["y"]),
    "ScatterElements": N("ScatterElements", ["x", "i", "u"], ["y"]),
    "ScatterND": N("ScatterND", ["x", "i", "u"], ["y"]),
}


@pytest.mark.parametrize("index", [2**32 + 1, 2**32, 2**31, -(2**32), -(2**63), 2**63 - 1])
@pytest.mark.parametrize("name", NODES)
def test_wide_indices_are_out_of_range(model, read, run, name, index) -> None:
    indices = np.array([[index]], np.int64)
    inputs = {"x": X, "i": indices}
    if name.startswith("Scatter"):
        inputs["u"] = X[:1] if name == "ScatterND" else X[:1, :1]
    graph = read(model([NODES[name]], inputs, ["y"]))
    with pytest.raises(OpError, match="out of range on axis 0, which has size 3"):
        run(graph, inputs)
