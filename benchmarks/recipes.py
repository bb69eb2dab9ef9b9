"""The networks that are measured: the builder of each, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Builders are functions of `networks`, in tests/helpers, or of `chains`.
Arguments = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The builder of a network.

    Attributes:
        module: The builder's module.
        maker: The builder: a function that returns an ONNX model.
        arguments: Its arguments.
    """

    module: str
    maker: str
    arguments: Arguments = field(default_factory=dict)


def _light(name: str) -> Recipe:
    # The logits: a softmax of a thousand would hide the errors of most of them.
    return Recipe("networks", "light", {"name": name, "seed": 3, "logits": True})


NETWORKS: Mapping[str, Recipe] = {
    "alexnet": _light("bvlc_alexnet"),
    "densenet121": _light("densenet121"),
    "inception_v1": _light("inception_v1"),
    "inception_v2": _light("inception_v2"),
    "resnet50": _light("resnet50"),
    "shufflenet": _light("shufflenet"),
    "squeezenet": _light("squeezenet"),
    "vgg19": _light("vgg19"),
    "zfnet512": _light("zfnet512"),
    "mobilenet_v2": Recipe("networks", "mobilenet_v2"),
    "mobilenet_v3": Recipe("networks", "mobilenet_v3"),
    # The layers of BERT-base, half of them, without its vocabulary.
    "encoder": Recipe(
        "networks", "encoder", {"layers": 6, "tokens": 128, "width": 768, "heads": 12}
    ),
    "lstm": Recipe("networks", "lstm"),
    "unet": Recipe("networks", "unet", {"size": 256}),
}

# Those with products that ONNX Runtime quantizes dynamically: others would be compared as they are.
DYNAMIC = ("encoder",)

# Networks outside the comparison, for measurements of the framework.
ADDS, DIGITS = "adds", "digits"
ADD_COUNT = 200
RECIPES: Mapping[str, Recipe] = {
    **NETWORKS,
    ADDS: Recipe("benchmarks.chains", "adds", {"count": ADD_COUNT}),
    DIGITS: Recipe("benchmarks.chains", "digits"),
}
