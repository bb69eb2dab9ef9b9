"""Networks with little work, whose time is mostly the framework's."""

from __future__ import annotations

import itertools

import onnx
from onnx import ModelProto, TensorProto, helper

from benchmarks.process import ROOT


def adds(*, count: int) -> ModelProto:
    """Return a chain of additions of one element: `x + count * step`.

    Both inputs are the application's, so that nothing can be computed before the run.
    """
    names = ["x", *(f"sum{i}" for i in range(count))]
    graph = helper.make_graph(
        [
            helper.make_node("Add", [taken, "step"], [made], made)
            for taken, made in itertools.pairwise(names)
        ],
        "adds",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1,)) for n in ("x", "step")],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, (1,))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def digits() -> ModelProto:
    """Return the network of examples/digits for one image."""
    model = onnx.load(ROOT / "examples" / "digits" / "digits.onnx")
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_value = 1
    return model
