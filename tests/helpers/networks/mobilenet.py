"""Networks shaped like MobileNetV2 and MobileNetV3-Large, as PyTorch exports them."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from networks._builder import Builder

# expansion, channels, repeats, stride
# Source: Sandler et al. 2018, table 2
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# kernel, expanded channels, channels, squeeze and excite, hard swish, stride
# Source: Howard et al. 2019, table 1
_V3 = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def mobilenet_v2(*, size: int = 224, classes: int = 1000) -> ModelProto:
    """Return a MobileNetV2-shaped network: inverted residuals, batch norm, relu6, logits out."""
    made = _MobileNet(np.random.default_rng(11))
    x, taken = made.unit("stem", "image", (3, 32), stride=2, activation="Clip"), 32
    for stage, (expansion, channels, repeats, stride) in enumerate(_V2):
        for i in range(repeats):
            wide = taken * expansion
            x = made.block(
                f"b{stage}_{i}",
                x,
                (taken, wide, channels),
                stride=stride if i == 0 else 1,
                activation="Clip",
            )
            taken = channels
    x = made.unit("last", x, (taken, 1280), size=1, activation="Clip")
    return made.head(x, 1280, classes, size)


def mobilenet_v3(*, size: int = 224, classes: int = 1000) -> ModelProto:
    """Return a MobileNetV3-shaped network: squeeze and excite, hard swish, logits out."""
    made = _MobileNet(np.random.default_rng(12))
    x, taken = made.unit("stem", "image", (3, 16), stride=2, activation="HardSwish"), 16
    for i, (kernel, wide, channels, squeezed, hard, stride) in enumerate(_V3):
        x = made.block(
            f"b{i}",
            x,
            (taken, wide, channels),
            kernel=kernel,
            stride=stride,
            activation="HardSwish" if hard else "Relu",
            squeezed=squeezed,
        )
        taken = channels
    x = made.unit("last", x, (taken, 960), size=1, activation="HardSwish")
    return made.head(x, 960, classes, size)


class _MobileNet(Builder):
    def unit(
        self,
        name: str,
        x: str,
        channels: tuple[int, int],
        *,
        size: int = 3,
        stride: int = 1,
        group: int = 1,
        activation: str = "",
    ) -> str:
        x = self.conv(name, x, channels, size=size, stride=stride, group=group)
        x = self.norm(f"{name}.norm", x, channels[1])
        return self.activation(f"{name}.act", x, activation) if activation else x

    def activation(self, name: str, x: str, kind: str) -> str:
        if kind == "Clip":
            return self.add(
                "Clip", name, x, self.scalar(f"{name}.low", 0), self.scalar(f"{name}.high", 6)
            )
        return self.add(kind, name, x)

    def block(
        self,
        name: str,
        x: str,
        channels: tuple[int, int, int],
        *,
        kernel: int = 3,
        stride: int,
        activation: str,
        squeezed: bool = False,
    ) -> str:
        taken, wide, made = channels
        y = x
        if wide != taken:
            y = self.unit(f"{name}.expand", y, (taken, wide), size=1, activation=activation)
        y = self.unit(
            f"{name}.deep",
            y,
            (wide, wide),
            size=kernel,
            stride=stride,
            group=wide,
            activation=activation,
        )
        if squeezed:
            y = self.squeeze(f"{name}.se", y, wide)
        y = self.unit(f"{name}.project", y, (wide, made), size=1)
        return self.add("Add", f"{name}.sum", x, y) if stride == 1 and taken == made else y

    def squeeze(self, name: str, x: str, channels: int) -> str:
        narrow = channels // 4
        y = self.add("GlobalAveragePool", f"{name}.pool", x)
        y = self.conv(f"{name}.down", y, (channels, narrow), size=1)
        y = self.add("Relu", f"{name}.relu", y)
        y = self.conv(f"{name}.up", y, (narrow, channels), size=1)
        y = self.add("HardSigmoid", f"{name}.gate", y, alpha=1 / 6, beta=0.5)
        return self.add("Mul", f"{name}.scaled", y, x)

    def head(self, x: str, channels: int, classes: int, size: int) -> ModelProto:
        x = self.add("GlobalAveragePool", "pool", x)
        x = self.add("Flatten", "flat", x, axis=1)
        drawn = self.rng.normal(0, channels**-0.5, (classes, channels)).astype(np.float32)
        bias = self.rng.uniform(-0.1, 0.1, classes).astype(np.float32)
        weights = self.weight("fc.w", drawn), self.weight("fc.b", bias)
        logits = self.add("Gemm", "logits", x, *weights, transB=1)
        return self.model("mobilenet", {"image": (1, 3, size, size)}, logits)
