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


def units(*, count: int) -> ModelProto:
    """Return a chain of Relu, Sigmoid, Add and Mul in turn on 8 elements, with constants."""
    names = ["x", *(f"t{i}" for i in range(count))]
    nodes, constants = [], []
    for i, (taken, made) in enumerate(itertools.pairwise(names)):
        op = ("Relu", "Sigmoid", "Add", "Mul")[i % 4]
        given = [taken]
        if op in ("Add", "Mul"):
            values = [1 + i % 7 / 8] * 8
            constants.append(helper.make_tensor(f"c{i}", TensorProto.FLOAT, (8,), values))
            given.append(f"c{i}")
        nodes.append(helper.make_node(op, given, [made], f"node{i}"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 8)) for n in ("x", names[-1])]
    graph = helper.make_graph(nodes, "units", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
