"""A network of many small ops: gates, comparisons of branches, moves, pools and norms."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from networks._builder import Builder


def gated(*, size: int = 16, width: int = 8) -> ModelProto:
    """Return the network: gated units, as in a WaveNet, between branches that other ops combine.

    Source: van den Oord et al. 2016, equation 2
    """
    made = _Gated(np.random.default_rng(15))
    made.width = width
    x = made.add("PRelu", "stem.prelu", made.conv("stem", "image", (3, width)), made.slopes("stem"))
    x = made.gate("gate0", x)
    y = made.scale("scaled", made.compare("branches", x))
    x = made.add("Add", "residual", x, y)
    x = made.fold("moves", x)
    x = made.pyramid("pyramid", x)
    x = made.gate("gate1", x)
    return made.model("gated", {"image": (1, 3, size, size)}, made.head("head", x))


class _Gated(Builder):
    width = 8

    def numbers(self, name: str, *values: int) -> str:
        return self.weight(name, np.array(values, np.int64))

    def slopes(self, name: str) -> str:
        drawn = self.rng.uniform(0.1, 0.4, (self.width, 1, 1)).astype(np.float32)
        return self.weight(f"{name}.slopes", drawn)

    def gate(self, name: str, x: str) -> str:
        """Multiply the tanh of half of the channels by the sigmoid of the others."""
        both = self.conv(f"{name}.both", x, (self.width, 2 * self.width))
        halves = [f"{name}.value", f"{name}.gate"]
        sizes = self.numbers(f"{name}.sizes", self.width, self.width)
        self.nodes.append(helper.make_node("Split", [both, sizes], halves, f"{name}.split", axis=1))
        value = self.add("Tanh", f"{name}.tanh", halves[0])
        share = self.add("Sigmoid", f"{name}.sigmoid", halves[1])
        return self.add("Add", f"{name}.sum", x, self.add("Mul", f"{name}.mul", value, share))

    def compare(self, name: str, x: str) -> str:
        """Combine two branches by maximum, minimum and difference."""
        left = self.add(
            "Elu", f"{name}.elu", self.conv(f"{name}.left", x, (self.width, self.width))
        )
        right = self.conv(f"{name}.right", x, (self.width, self.width))
        right = self.add("LeakyRelu", f"{name}.leaky", right, alpha=0.1)
        high = self.add("Max", f"{name}.max", left, right)
        low = self.add("Min", f"{name}.min", left, right)
        return self.add("Abs", f"{name}.abs", self.add("Sub", f"{name}.sub", high, low))

    def scale(self, name: str, x: str) -> str:
        """Normalize, and divide by a function of the input, which is not negative."""
        ones = self.weight(f"{name}.gamma", self.rng.uniform(0.5, 1.5, self.width).astype("f4"))
        bias = self.weight(f"{name}.beta", self.rng.normal(0, 0.1, self.width).astype("f4"))
        norm = self.add("InstanceNormalization", f"{name}.norm", x, ones, bias, epsilon=1e-5)
        one = self.weight(f"{name}.one", np.ones((1, self.width, 1, 1), np.float32))
        below = self.add("Add", f"{name}.below", self.add("Sqrt", f"{name}.sqrt", x), one)
        return self.add("Div", f"{name}.div", norm, below)

    def fold(self, name: str, x: str) -> str:
        """Move elements: space to channels and back, around a convolution, and a padded crop."""
        x = self.add("SpaceToDepth", f"{name}.folded", x, blocksize=2)
        x = self.conv(f"{name}.mixed", x, (4 * self.width, 4 * self.width), size=1)
        x = self.add("DepthToSpace", f"{name}.unfolded", x, blocksize=2)
        pads = self.numbers(f"{name}.pads", 0, 0, 1, 1, 0, 0, 1, 1)
        x = self.add("Pad", f"{name}.pad", x, pads, mode="reflect")
        parts = {"from": (2, 2), "to": (2**31, 2**31), "axes": (2, 3)}
        ends = [self.numbers(f"{name}.{part}", *values) for part, values in parts.items()]
        return self.add("Slice", f"{name}.crop", x, *ends)

    def pyramid(self, name: str, x: str) -> str:
        """Pool in two ways, enlarge, and concatenate with other encodings."""
        pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        mean = self.add("AveragePool", f"{name}.mean", x, **pool)
        high = self.add("MaxPool", f"{name}.high", x, **pool)
        far = self.add("Neg", f"{name}.neg", self.add("Abs", f"{name}.abs", high))
        near = self.add("Exp", f"{name}.exp", far)
        joined = self.add("Concat", f"{name}.joined", mean, near, axis=1)
        mixed = self.conv(f"{name}.mixed", joined, (2 * self.width, self.width), size=1)
        scales = self.weight(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
        wide = self.add(
            "Resize", f"{name}.wide", mixed, "", scales, mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip
        return self.add("Add", f"{name}.sum", x, wide)

    def head(self, name: str, x: str) -> str:
        """Reduce over the image in three ways, and return logits."""
        axes = self.numbers(f"{name}.axes", 2, 3)
        parts = [
            self.add(op_type, f"{name}.{op_type}", x, axes, keepdims=0)
            for op_type in ("ReduceMax", "ReduceMin", "ReduceMean")
        ]
        joined = self.add("Concat", f"{name}.joined", *parts, axis=1)
        drawn = self.rng.normal(0, 0.2, (3 * self.width, 10)).astype(np.float32)
        logits = self.add("MatMul", f"{name}.matmul", joined, self.weight(f"{name}.w", drawn))
        return self.add("LogSoftmax", f"{name}.logsoftmax", logits, axis=-1)
