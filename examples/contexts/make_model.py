"""Write a small transformer encoder as ONNX, with an open number of tokens and random weights.

python examples/contexts/make_model.py FILE.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, HIDDEN, CLASSES = 2, 192, 6, 768, 10


class Encoder:
    """The nodes and weights of the model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Add a node with one output, which has its name."""
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """Add a product with weights, and a bias."""
        scale = 1 / np.sqrt(inputs)
        weight = (self._rng.standard_normal((inputs, outputs)) * scale).astype(np.float32)
        bias = (self._rng.standard_normal(outputs) * 0.02).astype(np.float32)
        product = self.node(
            "MatMul", [x, self.constant(f"{name}.weight", weight)], f"{name}.product"
        )
        return self.node("Add", [product, self.constant(f"{name}.bias", bias)], name)

    def norm(self, x: str, name: str) -> str:
        """Add a layer normalization."""
        scale, bias = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        inputs = [x, self.constant(f"{name}.scale", scale), self.constant(f"{name}.bias", bias)]
        return self.node("LayerNormalization", inputs, name, axis=-1)

    def attention(self, x: str, name: str) -> str:
        """Add attention of several heads."""
        shape = self.constant(f"{name}.heads", np.array([0, -1, HEADS, WIDTH // HEADS]))
        parts = {}
        for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            projected = self.linear(x, f"{name}.{part}", WIDTH, WIDTH)
            split = self.node("Reshape", [projected, shape], f"{name}.{part}.split")
            parts[part] = self.node("Transpose", [split], f"{name}.{part}.heads", perm=order)
        scores = self.node("MatMul", [parts["q"], parts["k"]], f"{name}.scores")
        scale = self.constant(f"{name}.scale", np.float32(1 / np.sqrt(WIDTH // HEADS)))
        scaled = self.node("Mul", [scores, scale], f"{name}.scaled")
        weights = self.node("Softmax", [scaled], f"{name}.weights", axis=-1)
        mixed = self.node("MatMul", [weights, parts["v"]], f"{name}.mixed")
        back = self.node("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3])
        whole = self.constant(f"{name}.whole", np.array([0, -1, WIDTH]))
        joined = self.node("Reshape", [back, whole], f"{name}.joined")
        return self.linear(joined, f"{name}.out", WIDTH, WIDTH)


def encoder() -> onnx.ModelProto:
    """Return the model."""
    made, x = Encoder(), "tokens"
    for i in range(LAYERS):
        attended = made.attention(made.norm(x, f"norm{i}a"), f"attention{i}")
        x = made.node("Add", [x, attended], f"sum{i}a")
        inner = made.linear(made.norm(x, f"norm{i}b"), f"up{i}", WIDTH, HIDDEN)
        inner = made.node("Relu", [inner], f"relu{i}")
        x = made.node("Add", [x, made.linear(inner, f"down{i}", HIDDEN, WIDTH)], f"sum{i}b")
    mean = made.node("ReduceMean", [x, made.constant("axes", np.array([1]))], "mean", keepdims=0)
    made.linear(made.norm(mean, "norm"), "scores", WIDTH, CLASSES)
    graph = helper.make_graph(
        made.nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, [1, "length", WIDTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        made.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


if __name__ == "__main__":
    onnx.save(encoder(), Path(sys.argv[1]))
