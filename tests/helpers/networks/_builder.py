"""Building ONNX models with drawn weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper


class Builder:
    """A model in the making.

    Args:
        rng: Draws the weights, so that activations keep their variance.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def weight(self, name: str, values: np.ndarray) -> str:
        """Add a constant and return its name."""
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op_type: str, name: str, *inputs: str, **attributes: object) -> str:
        """Add a node of one output and return that output's name."""
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}:0"], name, **attributes))
        return f"{name}:0"

    def scalar(self, name: str, value: float) -> str:
        """Add a float constant of rank 0."""
        return self.weight(name, np.array(value, np.float32))

    def conv(
        self,
        name: str,
        x: str,
        channels: tuple[int, int],
        *,
        size: int = 3,
        stride: int = 1,
        group: int = 1,
    ) -> str:
        """Add a convolution with bias that keeps extents where its stride is 1."""
        taken, made = channels
        shape = (made, taken // group, size, size)
        fan_in = int(np.prod(shape[1:]))
        filters = self.rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        bias = self.rng.uniform(-0.1, 0.1, made).astype(np.float32)
        return self.add(
            "Conv",
            name,
            x,
            self.weight(f"{name}.w", filters),
            self.weight(f"{name}.b", bias),
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=group,
        )

    def norm(self, name: str, x: str, channels: int) -> str:
        """Add a batch normalization."""
        ranges = {"scale": (0.8, 1.2), "bias": (-0.1, 0.1), "mean": (-0.1, 0.1), "var": (0.5, 1.5)}
        values = [
            self.weight(f"{name}.{part}", self.rng.uniform(low, high, channels).astype(np.float32))
            for part, (low, high) in ranges.items()
        ]
        return self.add("BatchNormalization", name, x, *values)

    def model(
        self, name: str, inputs: Mapping[str, Sequence[int]], *outputs: str, opset: int = 20
    ) -> ModelProto:
        """Return the model; shapes of outputs are left open."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
                for n, shape in inputs.items()
            ],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            self.weights,
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)
