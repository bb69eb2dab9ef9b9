"""A network shaped like a U-Net: an encoder, and a decoder that upsamples and concatenates."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from networks._builder import Builder


def unet(*, size: int = 96, width: int = 16, depth: int = 3) -> ModelProto:
    """Return the network: half of its steps up are transposed convolutions, half bilinear resizes.

    Source: Ronneberger et al. 2015
    """
    made = _UNet(np.random.default_rng(13))
    x, channels, skips = "image", 3, []
    for level in range(depth):
        wide = width << level
        x, channels = made.pair(f"down{level}", x, channels, wide), wide
        skips.append((x, channels))
        x = made.add("MaxPool", f"pool{level}", x, kernel_shape=[2, 2], strides=[2, 2])
    x, channels = made.pair("bottom", x, channels, 2 * channels), 2 * channels
    for level, (skip, wide) in reversed(list(enumerate(skips))):
        x = made.up(f"up{level}", x, channels, wide, learned=level % 2 == 0)
        x = made.add("Concat", f"joined{level}", skip, x, axis=1)
        x, channels = made.pair(f"fine{level}", x, 2 * wide, wide), wide
    out = made.conv("mask", x, (channels, 2), size=1)
    return made.model("unet", {"image": (1, 3, size, size)}, out)


class _UNet(Builder):
    def pair(self, name: str, x: str, taken: int, made: int) -> str:
        for i, channels in enumerate(((taken, made), (made, made))):
            x = self.conv(f"{name}.{i}", x, channels)
            x = self.norm(f"{name}.norm{i}", x, made)
            x = self.add("Relu", f"{name}.relu{i}", x)
        return x

    def up(self, name: str, x: str, taken: int, made: int, *, learned: bool) -> str:
        if learned:
            drawn = self.rng.normal(0, taken**-0.5, (taken, made, 2, 2)).astype(np.float32)
            bias = self.rng.uniform(-0.1, 0.1, made).astype(np.float32)
            weights = self.weight(f"{name}.w", drawn), self.weight(f"{name}.b", bias)
            return self.add("ConvTranspose", name, x, *weights, kernel_shape=[2, 2], strides=[2, 2])
        scales = self.weight(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
        x = self.add(
            "Resize",
            f"{name}.resize",
            x,
            "",
            scales,
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )
        return self.conv(name, x, (taken, made), size=1)
