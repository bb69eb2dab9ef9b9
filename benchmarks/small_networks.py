"""Small networks of a few ops, on which different backends are the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


def perceptron(width: int, layers: int) -> ModelProto:
    """Return fully connected layers with ReLU, from (1, width) to (1, width)."""
    weights = _random((width, width), layers) / np.float32(width) ** 0.5
    nodes: list[NodeProto] = []
    names = ["x"]
    for i in range(layers):
        nodes.append(helper.make_node("Gemm", [names[-1], f"w{i}"], [f"g{i}"]))
        nodes.append(helper.make_node("Relu", [f"g{i}"], [f"r{i}"]))
        names.append(f"r{i}")
    return _model(nodes, (1, width), names[-1], {f"w{i}": w for i, w in enumerate(weights)})


def convolutions(channels: int, size: int, layers: int) -> ModelProto:
    """Return 3x3 convolutions with ReLU, from (1, channels, size, size) to the same."""
    weights = _random((channels, channels, 3, 3), layers) / np.float32(9 * channels) ** 0.5
    nodes: list[NodeProto] = []
    names = ["x"]
    for i in range(layers):
        pads = [1, 1, 1, 1]
        nodes.append(helper.make_node("Conv", [names[-1], f"w{i}"], [f"c{i}"], pads=pads))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        names.append(f"r{i}")
    shape = (1, channels, size, size)
    return _model(nodes, shape, names[-1], {f"w{i}": w for i, w in enumerate(weights)})


def elementwise(count: int) -> ModelProto:
    """Return a chain of elementwise ops on (1, count)."""
    ops = ["Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs"]
    names = ["x", *(f"e{i}" for i in range(len(ops)))]
    nodes = [
        helper.make_node(op, [given], [made])
        for op, given, made in zip(ops, names, names[1:], strict=False)
    ]
    return _model(nodes, (1, count), names[-1], {})


def attention(tokens: int, width: int) -> ModelProto:
    """Return softmax(x x^T) x for x of (1, tokens, width)."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "x"], ["y"]),
    ]
    return _model(nodes, (1, tokens, width), "y", {})


SMALL: Mapping[str, Callable[[], ModelProto]] = {
    "perceptron-16": lambda: perceptron(16, 4),
    "perceptron-256": lambda: perceptron(256, 4),
    "perceptron-2048": lambda: perceptron(2048, 2),
    "convolutions-8": lambda: convolutions(8, 16, 3),
    "convolutions-64": lambda: convolutions(64, 56, 3),
    "elementwise-100": lambda: elementwise(100),
    "elementwise-1M": lambda: elementwise(1_000_000),
    "attention-16": lambda: attention(16, 32),
    "attention-512": lambda: attention(512, 64),
}


def _random(shape: tuple[int, ...], count: int) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(0)
    return random.standard_normal((count, *shape), np.float32)


def _model(
    nodes: list[NodeProto],
    shape: tuple[int, ...],
    output: str,
    weights: Mapping[str, npt.NDArray[np.float32]],
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model
