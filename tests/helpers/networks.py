"""Networks for tests that cross dists: ONNX's light ones with weights of our own, an encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light(name: str, *, seed: int | None = None, logits: bool = False) -> ModelProto:
    """Gives a light network of the `onnx` package.

    Args:
        name: As in its file name, `resnet50`.
        seed: Draws weights that keep the variance of activations; None keeps the constant fill.
        logits: Takes the output before the softmax, which hides errors of small logits and makes
            more of the last digit of large ones.
    """
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    if seed is not None:
        _randomize(model, np.random.default_rng(seed))
    last = model.graph.node[-1]
    if last.op_type == "Softmax" and logits:
        model.graph.output[0].name = last.input[0]
        model.graph.node.remove(last)
        model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def _randomize(model: ModelProto, rng: np.random.Generator) -> None:
    """Puts drawn initializers where the network fills constants."""
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    roles = {
        name: (node.op_type, index) for node in graph.node for index, name in enumerate(node.input)
    }
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = tuple(int(n) for n in shapes[node.input[0]])
        values = _draw(*roles.get(node.output[0], ("", 0)), shape, rng)
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        graph.node.remove(node)


def _draw(op_type: str, index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if op_type == "BatchNormalization":
        # scale, bias, mean, variance
        low, high = ((0.5, 1.0), (-0.1, 0.1), (-0.1, 0.1), (0.5, 1.5))[index - 1]
        return rng.uniform(low, high, shape).astype(np.float32)
    if len(shape) < 2:
        return rng.uniform(-0.1, 0.1, shape).astype(np.float32)
    fan_in = int(np.prod(shape[1:]))
    return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)


def encoder(*, layers: int = 2, tokens: int = 12, width: int = 32, heads: int = 4) -> ModelProto:
    """Gives a transformer encoder: attention, residuals, LayerNormalization, Gelu; post-norm."""
    made = _Encoder(np.random.default_rng(7), tokens, width, heads)
    last = "x"
    for layer in range(layers):
        last = made.layer(f"layer{layer}", last)
    graph = helper.make_graph(
        made.nodes,
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, tokens, width])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, tokens, width])],
        made.weights,
    )
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


class _Encoder:
    def __init__(self, rng: np.random.Generator, tokens: int, width: int, heads: int) -> None:
        self.rng = rng
        self.tokens, self.width, self.heads = tokens, width, heads
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def layer(self, name: str, x: str) -> str:
        attended = self.attention(f"{name}/attention", x)
        x = self.norm(f"{name}/norm1", self.add("Add", f"{name}/residual1", x, attended))
        wide = self.dense(f"{name}/up", x, self.width, 4 * self.width)
        wide = self.add("Gelu", f"{name}/gelu", wide)
        narrow = self.dense(f"{name}/down", wide, 4 * self.width, self.width)
        return self.norm(f"{name}/norm2", self.add("Add", f"{name}/residual2", x, narrow))

    def attention(self, name: str, x: str) -> str:
        size = self.width // self.heads
        query, key, value = (
            self.split_heads(f"{name}/{part}", self.dense(f"{name}/{part}", x), perm)
            for part, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3)))
        )
        scores = self.add("MatMul", f"{name}/scores", query, key)
        root = self.weight(f"{name}/root", np.array(size**0.5, np.float32))
        scaled = self.add("Div", f"{name}/scaled", scores, root)
        shares = self.add("Softmax", f"{name}/softmax", scaled, axis=-1)
        mixed = self.add("MatMul", f"{name}/mixed", shares, value)
        back = self.add("Transpose", f"{name}/back", mixed, perm=(0, 2, 1, 3))
        shape = self.weight(f"{name}/joined_shape", np.array([0, 0, self.width], np.int64))
        return self.dense(f"{name}/out", self.add("Reshape", f"{name}/joined", back, shape))

    def split_heads(self, name: str, x: str, perm: tuple[int, ...]) -> str:
        heads = [0, 0, self.heads, self.width // self.heads]
        shape = self.weight(f"{name}/shape", np.array(heads, np.int64))
        return self.add(
            "Transpose", f"{name}/t", self.add("Reshape", f"{name}/r", x, shape), perm=perm
        )

    def dense(self, name: str, x: str, n: int | None = None, m: int | None = None) -> str:
        n, m = n or self.width, m or self.width
        drawn = self.rng.normal(0, n**-0.5, (n, m)).astype(np.float32)
        product = self.add("MatMul", f"{name}/matmul", x, self.weight(f"{name}/w", drawn))
        bias = self.weight(f"{name}/b", self.rng.normal(0, 0.1, m).astype(np.float32))
        return self.add("Add", f"{name}/bias", product, bias)

    def norm(self, name: str, x: str) -> str:
        scale = self.weight(f"{name}/scale", self.rng.uniform(0.5, 1.5, self.width).astype("f4"))
        bias = self.weight(f"{name}/bias", self.rng.normal(0, 0.1, self.width).astype("f4"))
        return self.add("LayerNormalization", name, x, scale, bias, axis=-1, epsilon=1e-5)

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op_type: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}:0"], name, **attributes))
        return f"{name}:0"
