"""Train a plain network, scale its channels badly, and write ``scaled.onnx``.

In the repository's root, with the packages of ``examples/digits/train.py`` installed::

    python -m examples.trained.scaled

After training, batch normalizations are folded into their convolutions. Then each channel between
two layers is multiplied by a power of two, from 2^-6 to 2^6, and the weights that read it are
divided by the same. The ops between (ReLU, pooling) commute with positive factors, and products
with powers of two are exact, so the function is the same. Networks with folded normalizations are
similar, to a lesser degree. One 8-bit scale for all channels cannot represent them; cross-layer
equalization restores the scales.
"""

import itertools
import sys
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
import torch
from examples.digits.train import CLASSES, SEED, GraphWriter, as_input, split
from examples.trained.recipe import Recipe, model_of, run
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (1, 24, 32, 48, 48)
POOL_AFTER = 2  # convolutions
MAX_EXPONENT = 6


class PlainNet(nn.Module):
    """A stack of convolutions, from image ``(n, 1, 8, 8)`` in 0..1 to scores ``(n, 10)``."""

    def __init__(self) -> None:
        """Create the layers with torch's default initial weights."""
        super().__init__()
        pairs = list(itertools.pairwise(WIDTHS))
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b in pairs)
        self.gemm = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Return unnormalized scores."""
        x = image
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), start=1):
            x = functional.relu(norm(conv(x)))
            if number == POOL_AFTER:
                x = functional.max_pool2d(x, 2)
        scores: Tensor = self.gemm(x.mean(dim=(2, 3)))
        return scores


@dataclass(frozen=True, slots=True)
class Layer:
    """Weight and bias of a layer: output channels first, then input channels."""

    weight: Tensor
    bias: Tensor


def fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> Layer:
    """Return a convolution equivalent to a convolution and its normalization."""
    factors = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = conv.weight * factors[:, None, None, None]
    return Layer(weight.detach(), (norm.bias - norm.running_mean * factors).detach())


def rescale(layers: list[Layer]) -> list[Layer]:
    """Return the same function with badly scaled channels between the layers."""
    rng = np.random.default_rng(SEED)
    result = list(layers)
    for i in range(len(layers) - 1):
        first, second = result[i], result[i + 1]
        exponents = rng.integers(-MAX_EXPONENT, MAX_EXPONENT + 1, len(first.bias))
        factors = torch.from_numpy(np.exp2(exponents).astype(np.float32))
        by_row = factors.reshape(-1, *[1] * (first.weight.ndim - 1))
        by_column = factors.reshape(1, -1, *[1] * (second.weight.ndim - 2))
        result[i] = Layer(first.weight * by_row, first.bias * factors)
        result[i + 1] = Layer(second.weight / by_column, second.bias)
    return result


def write(layers: list[Layer]) -> onnx.ModelProto:
    """Return the network of the layers as ONNX."""
    w = GraphWriter()
    x = "image"
    *convs, gemm = layers
    for number, layer in enumerate(convs, start=1):
        weights = {"weight": layer.weight, "bias": layer.bias}
        shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        x = w.node("Conv", f"conv{number}", x, weights=weights, **shape)
        x = w.node("Relu", f"relu{number}", x)
        if number == POOL_AFTER:
            x = w.node("MaxPool", "pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = w.node("Flatten", "head/flatten", w.node("GlobalAveragePool", "head/pool", x), axis=1)
    weights = {"weight": gemm.weight, "bias": gemm.bias}
    w.node("Gemm", "head/gemm", x, weights=weights, output="scores", transB=1)
    return model_of(w, "scaled")


def scores(model: onnx.ModelProto, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return onnxruntime's scores for images ``(n, 1, 8, 8)``."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["scores"], {"image": images})[0])


def to_onnx(net: PlainNet) -> onnx.ModelProto:
    """Return the trained network, folded and badly scaled, after a check of its function."""
    layers = [fold(conv, norm) for conv, norm in zip(net.convs, net.norms, strict=True)]
    layers.append(Layer(net.gemm.weight.detach(), net.gemm.bias.detach()))
    plain, scaled = write(layers), write(rescale(layers))
    images = as_input(split()[0])
    first, second = (scores(model, images) for model in (plain, scaled))
    # Powers of two are exact, so results can differ only by a kernel's order of additions.
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-5)
    return scaled


if __name__ == "__main__":
    sys.exit(run(Recipe("scaled", PlainNet, to_onnx)))
