"""Train the recurrent network and write ``recurrent.onnx``.

In the repository's root, with the packages of ``examples/digits/train.py`` installed::

    python -m examples.trained.recurrent

An LSTM in both directions reads the image as a sequence of eight rows. The scores are computed from
its two last states.
"""

import sys

import numpy as np
import onnx
import torch
from examples.digits.train import CLASSES, GraphWriter
from examples.trained.recipe import Recipe, constant, model_of, run
from torch import Tensor, nn

WIDTH = 48


class RecurrentNet(nn.Module):
    """The network, from image ``(n, 1, 8, 8)`` in 0..1 to scores ``(n, 10)``."""

    def __init__(self) -> None:
        """Create the layers with torch's default initial weights."""
        super().__init__()
        self.lstm = nn.LSTM(8, WIDTH, bidirectional=True)
        self.gemm = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Return unnormalized scores."""
        _, (last, _) = self.lstm(image.squeeze(1).transpose(0, 1))
        scores: Tensor = self.gemm(last.transpose(0, 1).flatten(1))
        return scores


def gates_reordered(weight: Tensor) -> Tensor:
    """Reorder the gates of torch (input, forget, cell, output) to ONNX's order."""
    i, f, c, o = weight.detach().chunk(4)
    return torch.cat([i, o, f, c])


def both_directions(lstm: nn.LSTM, *names: str) -> Tensor:
    """Return weights in ONNX's form: per direction, the named tensors in one row of gates."""
    directions = [
        torch.cat([gates_reordered(getattr(lstm, f"{name}_l0{suffix}")) for name in names])
        for suffix in ("", "_reverse")
    ]
    return torch.stack(directions)


def to_onnx(net: RecurrentNet) -> onnx.ModelProto:
    """Write the trained network."""
    w = GraphWriter()
    constant(w, "channel_axis", np.array([1]))
    x = w.node("Squeeze", "rows/image", "image", "channel_axis")
    x = w.node("Transpose", "rows/turned", x, perm=[1, 0, 2])
    weights = {
        "weight": both_directions(net.lstm, "weight_ih"),
        "recurrence": both_directions(net.lstm, "weight_hh"),
        "bias": both_directions(net.lstm, "bias_ih", "bias_hh"),
    }
    w.node("LSTM", "lstm", x, weights=weights, hidden_size=WIDTH, direction="bidirectional")
    w.nodes[-1].output[:] = ["", "lstm"]  # of the three outputs, the last states
    x = w.node("Transpose", "head/turned", "lstm", perm=[1, 0, 2])
    x = w.node("Flatten", "head/flatten", x, axis=1)
    gemm = {"weight": net.gemm.weight, "bias": net.gemm.bias}
    w.node("Gemm", "head/gemm", x, weights=gemm, output="scores", transB=1)
    return model_of(w, "recurrent")


if __name__ == "__main__":
    sys.exit(run(Recipe("recurrent", RecurrentNet, to_onnx, epochs=150, peak_learning_rate=1e-2)))
