"""The networks that both run, and how each is quantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quantization.subjects import TRAINED
from benchmarks.recipes import NETWORKS, Recipe

# ONNX's biases have 32 bits; with 8 the vendor computes some convolutions of depthwise wrongly.
PER_CHANNEL: Mapping[str, Any] = {
    "use_per_channel_quantization": True,
    "use_per_row_quantization": True,
    "bias_bitwidth": 32,
}
PER_TENSOR: Mapping[str, Any] = {"bias_bitwidth": 32}


@dataclass(frozen=True, slots=True)
class Subject:
    """A network and its quantization.

    Attributes:
        trained: Name of a trained network, whose held-out images are the test; empty for others.
        recipe: The builder of a network with drawn weights and images; None for trained ones.
        options: Options of the quantizer.
        calibration: Number of images to calibrate with.
        test: Number of images of whole runs.
        nodes: Number of images of which each node is compared; 0 compares whole runs only.
    """

    trained: str = ""
    recipe: Recipe | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: PER_CHANNEL)
    calibration: int = 16
    test: int = 16
    nodes: int = 4


def _trained(name: str, options: Mapping[str, Any] = PER_CHANNEL) -> Subject:
    if name not in TRAINED:
        raise AssertionError(f"no trained network '{name}'")
    return Subject(trained=name, options=options, calibration=100, test=360, nodes=16)


def _drawn(builder: str, test: int = 16, nodes: int = 4, **arguments: int) -> Subject:
    return Subject(recipe=Recipe("networks", builder, arguments), test=test, nodes=nodes)


SUBJECTS: Mapping[str, Subject] = {
    "digits": _trained("digits"),
    "depthwise": _trained("depthwise"),
    "attention": _trained("attention"),
    # Without training its noise is a quarter of the signal: of a few images either may have less.
    "mobilenet_v3": _drawn("mobilenet_v3", test=96, size=64, classes=100),
    "unet": _drawn("unet", size=32, width=8, depth=2),
    "gated": _drawn("gated", test=96, nodes=16, size=16, width=8),
    "depthwise-u8": _trained("depthwise", PER_TENSOR),
    # A run takes the simulator seconds: for the ratio of speed.
    "resnet50": Subject(recipe=NETWORKS["resnet50"], calibration=4, test=2, nodes=0),
}
