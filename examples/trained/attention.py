"""Train the attention network and write ``attention.onnx``.

In the repository's root, with the packages of ``examples/digits/train.py`` installed::

    python -m examples.trained.attention

A small vision transformer (Dosovitskiy et al. 2021): the image is cut into 16 patches of 2x2
pixels, which are the tokens of an encoder whose layers normalize before they attend. Its nodes are
the standard ones of opset 20: LayerNormalization, Gelu, Softmax and plain MatMuls.
"""

import math
import sys

import numpy as np
import onnx
import torch
from examples.digits.train import CLASSES, GraphWriter
from examples.trained.recipe import Recipe, constant, model_of, run
from torch import Tensor, nn
from torch.nn import functional

PATCH, TOKENS = 2, 16
WIDTH, HEADS, LAYERS = 32, 4, 2
INNER = 2 * WIDTH


class Layer(nn.Module):
    """An encoder layer: attention, then a feed-forward network; ``(n, tokens, width)``."""

    def __init__(self) -> None:
        """Create the layers with torch's default initial weights."""
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.join = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.widen, self.narrow = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def attend(self, x: Tensor) -> Tensor:
        """Return the attention of all heads for each token."""
        shape = (len(x), TOKENS, HEADS, WIDTH // HEADS)
        q, k, v = (
            part(x).reshape(shape).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        weights = functional.softmax(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS), dim=3)
        joined: Tensor = self.join((weights @ v).transpose(1, 2).reshape(len(x), TOKENS, WIDTH))
        return joined

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens after the layer."""
        x = x + self.attend(self.norm1(x))
        y: Tensor = x + self.narrow(functional.gelu(self.widen(self.norm2(x))))
        return y


class AttentionNet(nn.Module):
    """The network, from image ``(n, 1, 8, 8)`` in 0..1 to scores ``(n, 10)``."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, PATCH, stride=PATCH)
        self.places = nn.Parameter(torch.randn(1, TOKENS, WIDTH) * 0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Return unnormalized scores."""
        x = self.patches(image).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.head(self.norm(x).mean(dim=1))
        return scores


class Writer(GraphWriter):
    """Adds the layers of this network."""

    def linear(self, name: str, layer: nn.Linear, x: str, *, output: str = "") -> str:
        """Add a linear layer as exporters do: a product with the transposed weight, and a bias."""
        y = self.node(
            "MatMul", f"{name}/matmul", x, weights={"weight": layer.weight.T.contiguous()}
        )
        return self.node("Add", f"{name}/add", y, weights={"bias": layer.bias}, output=output)

    def layer_norm(self, name: str, layer: nn.LayerNorm, x: str) -> str:
        """Add a normalization of each token."""
        weights = {"scale": layer.weight, "bias": layer.bias}
        return self.node("LayerNormalization", name, x, weights=weights, epsilon=layer.eps)

    def attention(self, name: str, layer: Layer, x: str) -> str:
        """Add the attention of a layer."""
        q, k, v = (
            self.heads(f"{name}/{part}", linear, x, perm)
            for part, linear, perm in (
                ("query", layer.query, [0, 2, 1, 3]),
                ("key", layer.key, [0, 2, 3, 1]),
                ("value", layer.value, [0, 2, 1, 3]),
            )
        )
        y = self.node("MatMul", f"{name}/scores", q, k)
        y = self.node("Mul", f"{name}/scaled", y, "scale")
        y = self.node("Softmax", f"{name}/softmax", y, axis=3)
        y = self.node("MatMul", f"{name}/gathered", y, v)
        y = self.node("Transpose", f"{name}/turned", y, perm=[0, 2, 1, 3])
        y = self.node("Reshape", f"{name}/joined", y, "tokens")
        return self.linear(f"{name}/join", layer.join, y)

    def heads(self, name: str, linear: nn.Linear, x: str, perm: list[int]) -> str:
        """Add a linear layer whose result is split by heads."""
        y = self.node("Reshape", f"{name}/split", self.linear(name, linear, x), "heads")
        return self.node("Transpose", f"{name}/turned", y, perm=perm)

    def layer(self, name: str, layer: Layer, x: str) -> str:
        """Add an encoder layer."""
        y = self.attention(
            f"{name}/attention", layer, self.layer_norm(f"{name}/norm1", layer.norm1, x)
        )
        x = self.node("Add", f"{name}/add1", x, y)
        y = self.linear(
            f"{name}/widen", layer.widen, self.layer_norm(f"{name}/norm2", layer.norm2, x)
        )
        y = self.linear(f"{name}/narrow", layer.narrow, self.node("Gelu", f"{name}/gelu", y))
        return self.node("Add", f"{name}/add2", x, y)


def to_onnx(net: AttentionNet) -> onnx.ModelProto:
    """Write the trained network, one node per step, nothing fused."""
    w = Writer()
    # A zero keeps the size of an axis: the batch.
    constant(w, "heads", np.array([0, TOKENS, HEADS, WIDTH // HEADS]))
    constant(w, "tokens", np.array([0, TOKENS, WIDTH]))
    constant(w, "channels", np.array([0, WIDTH, TOKENS]))
    constant(w, "scale", np.array(1 / math.sqrt(WIDTH // HEADS), np.float32))
    constant(w, "token_axis", np.array([1]))
    weights = {"weight": net.patches.weight, "bias": net.patches.bias}
    sizes = {"kernel_shape": [PATCH, PATCH], "strides": [PATCH, PATCH]}
    x = w.node("Conv", "patches/conv", "image", weights=weights, **sizes)
    x = w.node("Reshape", "patches/flat", x, "channels")
    x = w.node("Transpose", "patches/turned", x, perm=[0, 2, 1])
    x = w.node("Add", "patches/placed", x, weights={"places": net.places})
    for number, layer in enumerate(net.layers, start=1):
        x = w.layer(f"layer{number}", layer, x)
    x = w.layer_norm("head/norm", net.norm, x)
    x = w.node("ReduceMean", "head/mean", x, "token_axis", keepdims=0)
    w.linear("head", net.head, x, output="scores")
    return model_of(w, "attention", opset=20)


if __name__ == "__main__":
    sys.exit(run(Recipe("attention", AttentionNet, to_onnx, epochs=300, peak_learning_rate=3e-3)))
