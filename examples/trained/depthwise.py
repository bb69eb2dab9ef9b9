"""Train the depthwise-separable network and write ``depthwise.onnx``.

In the repository's root, with the packages of ``examples/digits/train.py`` installed::

    python -m examples.trained.depthwise

Inverted residual blocks (Sandler et al. 2018, MobileNetV2): a pointwise convolution widens, a
depthwise one filters, a pointwise one narrows without an activation. Every convolution is followed
by a batch normalization, which stays a node of the file, and the activation is relu6, a Clip.
"""

import sys

import numpy as np
import onnx
from examples.digits.train import CLASSES, GraphWriter
from examples.trained.recipe import Recipe, constant, model_of, run
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEAD_WIDTH, EXPANSION = 16, 96, 4
# Channels of each block, and the stride of its depthwise convolution.
BLOCKS = ((16, 1), (24, 2), (24, 1))


class Normalized(nn.Module):
    """A padded convolution without bias, and its normalization."""

    def __init__(
        self, given: int, made: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        """Create the layers with torch's default initial weights."""
        super().__init__()
        self.conv = nn.Conv2d(
            given, made, kernel, stride, padding=kernel // 2, groups=groups, bias=False
        )
        self.bn = nn.BatchNorm2d(made)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(n, made, h / stride, w / stride)`` of ``(n, given, h, w)``."""
        y: Tensor = self.bn(self.conv(x))
        return y


class Block(nn.Module):
    """An inverted residual: it adds its input where shapes allow."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        """Create the layers."""
        super().__init__()
        inner = EXPANSION * given
        self.expand = Normalized(given, inner, 1)
        self.depthwise = Normalized(inner, inner, 3, stride, groups=inner)
        self.project = Normalized(inner, made, 1)
        self.adds = stride == 1 and given == made

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(n, made, h / stride, w / stride)`` of ``(n, given, h, w)``."""
        y = functional.relu6(self.expand(x))
        y = self.project(functional.relu6(self.depthwise(y)))
        return x + y if self.adds else y


class DepthwiseNet(nn.Module):
    """The network, from image ``(n, 1, 8, 8)`` in 0..1 to scores ``(n, 10)``."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.stem = Normalized(1, WIDTH, 3)
        givens = (WIDTH, *(made for made, _ in BLOCKS))
        self.blocks = nn.ModuleList(
            Block(given, made, stride)
            for given, (made, stride) in zip(givens, BLOCKS, strict=False)
        )
        self.head = Normalized(givens[-1], HEAD_WIDTH, 1)
        self.gemm = nn.Linear(HEAD_WIDTH, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Return unnormalized scores."""
        x = functional.relu6(self.stem(image))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.gemm(functional.relu6(self.head(x)).mean(dim=(2, 3)))
        return scores


class Writer(GraphWriter):
    """Adds the layers of this network."""

    def normalized(self, name: str, layer: Normalized, x: str) -> str:
        """Add a convolution and its batch normalization."""
        conv = layer.conv
        (kernel, _), (stride, _), (pad, _) = conv.kernel_size, conv.stride, conv.padding
        y = self.node(
            "Conv",
            f"{name}/conv",
            x,
            weights={"weight": conv.weight},
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=conv.groups,
        )
        return self.norm(f"{name}/bn", layer.bn, y)

    def relu6(self, name: str, x: str) -> str:
        """Add the activation."""
        return self.node("Clip", f"{name}/relu6", x, "zero", "six")

    def block(self, name: str, block: Block, x: str) -> str:
        """Add an inverted residual."""
        y = self.relu6(f"{name}/expand", self.normalized(f"{name}/expand", block.expand, x))
        y = self.normalized(f"{name}/depthwise", block.depthwise, y)
        y = self.relu6(f"{name}/depthwise", y)
        y = self.normalized(f"{name}/project", block.project, y)
        return self.node("Add", f"{name}/add", x, y) if block.adds else y


def to_onnx(net: DepthwiseNet) -> onnx.ModelProto:
    """Write the trained network, one node per layer, nothing folded or fused."""
    w = Writer()
    constant(w, "zero", np.array(0, np.float32))
    constant(w, "six", np.array(6, np.float32))
    x = w.relu6("stem", w.normalized("stem", net.stem, "image"))
    for number, block in enumerate(net.blocks, start=1):
        x = w.block(f"block{number}", block, x)
    x = w.relu6("head", w.normalized("head", net.head, x))
    x = w.node("Flatten", "head/flatten", w.node("GlobalAveragePool", "head/pool", x), axis=1)
    gemm = {"weight": net.gemm.weight, "bias": net.gemm.bias}
    w.node("Gemm", "head/gemm", x, weights=gemm, output="scores", transB=1)
    return model_of(w, "depthwise")


if __name__ == "__main__":
    sys.exit(run(Recipe("depthwise", DepthwiseNet, to_onnx)))
