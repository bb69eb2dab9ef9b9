"""What the training scripts of this folder share: the data, and the steps from recipe to file.

The data, the augmentation and the training loop are those of ``examples/digits/train.py``, whose
docstring says what to install; 360 images are held out before anything else happens.
"""

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from examples.digits.train import (
    CLASSES,
    HELD_OUT_IMAGES,
    GraphWriter,
    cross_validate,
    onnx_accuracy,
    split,
    train,
)
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn

HERE = Path(__file__).parent
MIN_ACCURACY = 0.97
MAX_MODEL_BYTES = 200_000
# Of the training images, as many of each digit, in an order in which each ten hold every digit.
CALIBRATION_PER_DIGIT = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one network is made.

    Attributes:
        name: Of the network and of its file.
        make_net: Makes the network untrained: image ``(n, 1, 8, 8)`` gives scores ``(n, 10)``.
        to_onnx: Writes the trained network.
        epochs: How long it trains.
        peak_learning_rate: The greatest step of the one-cycle schedule.
    """

    name: str
    make_net: Callable[[], nn.Module]
    to_onnx: Callable[[nn.Module], onnx.ModelProto]
    epochs: int = 80
    peak_learning_rate: float = 4e-3


def constant(w: GraphWriter, name: str, values: NDArray[np.generic]) -> str:
    """Add a constant that is no layer's weight, such as a shape or a limit; gives its name."""
    w.weights.append(numpy_helper.from_array(values, name))
    return name


def model_of(w: GraphWriter, name: str, opset: int = 17) -> onnx.ModelProto:
    """Make the model of what was written, from the tensor ``image`` to the tensor ``scores``."""
    graph = helper.make_graph(
        w.nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])],
        w.weights,
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=9 if opset > 18 else 8,
        producer_name=f"examples/trained/{name}.py",
    )


def calibration_images(
    images: NDArray[np.uint8], labels: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Give the first of the training images of each digit, digit after digit, and their labels."""
    by_digit = [np.flatnonzero(labels == d)[:CALIBRATION_PER_DIGIT] for d in range(CLASSES)]
    chosen = np.stack(by_digit, axis=1).reshape(-1)
    return images[chosen], labels[chosen]


def run(recipe: Recipe) -> int:
    """Run a recipe's script; gives 1, and writes nothing, when the model misses a target."""
    parser = argparse.ArgumentParser(description=f"Make {recipe.name}.onnx and calibration.npz.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write")
    parser.add_argument("--cross-validate", action="store_true", help="five folds, no files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    images, held_images, labels, held_labels = split()
    fit = functools.partial(
        train,
        make_net=recipe.make_net,
        epochs=recipe.epochs,
        peak_learning_rate=recipe.peak_learning_rate,
    )
    if arguments.cross_validate:
        cross_validate(images, labels, fit)
        return 0

    net = fit(images, labels)
    model = recipe.to_onnx(net)
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    accuracy = onnx_accuracy(content, net, held_images, held_labels)
    right = round(accuracy * HELD_OUT_IMAGES)
    print(f"held-out top-1: {accuracy:.2%} ({right} of {HELD_OUT_IMAGES}); {len(content)} bytes")
    if accuracy < MIN_ACCURACY or len(content) >= MAX_MODEL_BYTES:
        print(f"wanted {MIN_ACCURACY:.1%} and under {MAX_MODEL_BYTES} bytes", file=sys.stderr)
        return 1
    (arguments.out / f"{recipe.name}.onnx").write_bytes(content)
    chosen, digits = calibration_images(images, labels)
    np.savez_compressed(arguments.out / "calibration.npz", images=chosen, labels=digits)
    return 0
