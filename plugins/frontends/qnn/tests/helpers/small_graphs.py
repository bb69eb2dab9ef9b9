"""Small graphs that the tests write and read."""

from __future__ import annotations

import numpy as np

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Param,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)


def convolution() -> Graph:
    """A quantized convolution with a Relu: (1, 4, 4, 3) to (1, 2, 2, 2), 432 multiplications."""
    random = np.random.default_rng(0)
    graph = Graph("net")
    q8, s8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
    per_axis = AxisScaleOffset(3, np.float32([0.1, 0.2]), np.zeros(2, np.int32))
    half, tenth = ScaleOffset(0.5, -128), ScaleOffset(0.1)
    add = graph.add_tensor
    x = add(Tensor("x", q8, (1, 4, 4, 3), TensorKind.APP_WRITE, encoding=half,
                   source_perm=(0, 2, 3, 1)))  # fmt: skip
    y = add(Tensor("y", q8, (1, 2, 2, 2), TensorKind.APP_READ, encoding=tenth))
    c = add(Tensor("/conv/out", q8, (1, 2, 2, 2), encoding=half))
    values = random.integers(-128, 128, (3, 3, 3, 2)).astype(np.int8)
    w = add(Tensor.static("conv.weight", values, s8, encoding=per_axis, source_perm=(2, 3, 1, 0)))
    bias = np.int32([5, -7])
    b = add(Tensor.static("conv.bias", bias, DType.SFIXED_POINT_32,
                          encoding=ScaleOffset(0.05)))  # fmt: skip
    params: dict[str, Param] = {
        "stride": Tensor.static("/conv.stride", np.uint32([1, 1])),
        "pad_amount": Tensor.static("/conv.pad_amount", np.zeros((2, 2), np.uint32)),
        "group": Scalar(DType.UINT_32, 1),
    }
    graph.add_node(Node("/conv", "qti.aisw", "Conv2d", [x, w, b], [c], params))
    graph.add_node(Node("relu", "qti.aisw", "Relu", [c], [y]))
    return graph
