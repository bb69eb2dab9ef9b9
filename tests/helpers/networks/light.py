"""The light networks of the `onnx` package, with weights of our own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
# The hidden units of the classifiers of AlexNet, VGG19 and ZFNet; nothing else is as many.
HIDDEN = 4096


def light(
    name: str, *, seed: int | None = None, logits: bool = False, hidden: int = HIDDEN
) -> ModelProto:
    """Return a light network of the `onnx` package.

    Args:
        name: As in its file name, `resnet50`.
        seed: Draws weights that keep the variance of activations; None keeps the constant fill.
        logits: Takes the output before the softmax, which hides errors of small logits and makes
            more of the last digit of large ones.
        hidden: Hidden units of the classifiers that have 4096, of up to 100 million weights.
    """
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    if hidden != HIDDEN:
        _narrow(model, hidden)
    if seed is not None:
        _randomize(model, np.random.default_rng(seed))
    last = model.graph.node[-1]
    if last.op_type == "Softmax" and logits:
        model.graph.output[0].name = last.input[0]
        model.graph.node.remove(last)
        model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def _narrow(model: ModelProto, hidden: int) -> None:
    """Return the classifier other hidden layers; the weights' shapes are all that says so."""
    for initializer in model.graph.initializer:
        shape = numpy_helper.to_array(initializer)
        narrow = np.where(shape == HIDDEN, hidden, shape)
        initializer.CopyFrom(numpy_helper.from_array(narrow, initializer.name))


def _randomize(model: ModelProto, rng: np.random.Generator) -> None:
    """Put drawn initializers where the network fills constants."""
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    roles = {
        name: (node.op_type, index) for node in graph.node for index, name in enumerate(node.input)
    }
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = tuple(int(n) for n in shapes[node.input[0]])
        values = _draw(*roles.get(node.output[0], ("", 0)), shape, rng)
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        graph.node.remove(node)


def _draw(op_type: str, index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if op_type == "BatchNormalization":
        # scale, bias, mean, variance
        low, high = ((0.5, 1.0), (-0.1, 0.1), (-0.1, 0.1), (0.5, 1.5))[index - 1]
        return rng.uniform(low, high, shape).astype(np.float32)
    if len(shape) < 2:
        return rng.uniform(-0.1, 0.1, shape).astype(np.float32)
    fan_in = int(np.prod(shape[1:]))
    drawn = rng.standard_normal(shape, np.float32)  # a hundred million numbers in VGG19
    return np.multiply(drawn, np.float32(np.sqrt(2 / fan_in)), out=drawn)
