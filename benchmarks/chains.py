"""Networks that compute next to nothing, so that the framework is all that takes time."""

from __future__ import annotations

import itertools

from onnx import ModelProto, TensorProto, helper


def adds(*, count: int) -> ModelProto:
    """Return a chain of additions of one element: `x + count * step`.

    Both inputs are given at the run, so that nothing can be computed beforehand.
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
