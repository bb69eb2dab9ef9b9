"""Biases of zeros."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Graph, Tensor, TensorKind, check
from dovetail_opset.build import add, static
from dovetail_opset.passes import ZeroBiases


def test_only_convolutions_without_a_bias_get_one() -> None:
    graph = Graph("net")
    shape = (1, 4, 4, 2)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    w = static(graph, "w", np.ones((1, 1, 2, 2), np.float32))
    own = static(graph, "own", np.ones(2, np.float32))
    params = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    bare = add(graph, "Conv2d", [x, w], name="a", outputs="a", **params)
    omitted = add(graph, "Conv2d", [bare, w, None], name="b", outputs="b", **params)
    full = add(graph, "Conv2d", [omitted, w, own], name="c", outputs="c", **params)
    add(graph, "Relu", [full], name="r", outputs="y").kind = TensorKind.APP_READ
    assert ZeroBiases().run(graph)
    check(graph)
    assert [graph.node(name).inputs[2].name for name in "abc"] == ["a.bias", "b.bias", "own"]
    assert graph.tensor("a.bias").values().tolist() == [0, 0]
    assert not ZeroBiases().run(graph)
