"""A recurrent network: two LSTM layers, one of them in both directions, and a classifier."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from networks._builder import Builder


def lstm(*, steps: int = 20, features: int = 24, width: int = 32, classes: int = 10) -> ModelProto:
    """Return the network; its input is (steps, 1, features), its output logits of the last step."""
    made = _Lstm(np.random.default_rng(14))
    x = made.layer("first", "x", features, width, both=True)
    x = made.layer("second", x, 2 * width, width, both=False)
    last = made.weight("last", np.array([-1], np.int64))
    axis = made.weight("time", np.array([0], np.int64))
    end = made.weight("end", np.array([2**31], np.int64))
    x = made.add("Slice", "final", x, last, end, axis)
    shape = made.weight("flat", np.array([1, width], np.int64))
    x = made.add("Reshape", "row", x, shape)
    drawn = made.rng.normal(0, width**-0.5, (width, classes)).astype(np.float32)
    logits = made.add("MatMul", "logits", x, made.weight("w", drawn))
    return made.model("lstm", {"x": (steps, 1, features)}, logits)


class _Lstm(Builder):
    def layer(self, name: str, x: str, features: int, width: int, *, both: bool) -> str:
        """Add a layer and return its states as (steps, batch, directions * width)."""
        directions = 2 if both else 1
        shapes = {
            "w": (directions, 4 * width, features),
            "r": (directions, 4 * width, width),
            "b": (directions, 8 * width),
        }
        weights = [
            self.weight(
                f"{name}.{part}", self.rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
            )
            for part, shape in shapes.items()
        ]
        self.nodes.append(
            helper.make_node(
                "LSTM",
                [x, *weights],
                [f"{name}:0"],
                name,
                hidden_size=width,
                direction="bidirectional" if both else "forward",
            )
        )
        turned = self.add("Transpose", f"{name}.turned", f"{name}:0", perm=(0, 2, 1, 3))
        shape = self.weight(f"{name}.shape", np.array([0, 0, directions * width], np.int64))
        return self.add("Reshape", f"{name}.joined", turned, shape)
