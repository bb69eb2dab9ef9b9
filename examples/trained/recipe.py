"""Common parts of the training scripts of this folder: the data, and the steps to a file.

Everything except the networks comes from ``examples/digits/train.py``, whose docstring names the
packages to install. First, 360 images are held out.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from examples.digits import train as digits
from examples.digits.train import CLASSES, GraphWriter
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import nn

HERE = Path(__file__).parent
MIN_ACCURACY = 0.97
MAX_MODEL_BYTES = 200_000
# Equal numbers of training images of each digit; each ten in order have every digit.
CALIBRATION_PER_DIGIT = 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe of one network.

    Attributes:
        name: Name of the network and of its file.
        make_net: Creates the untrained network, from image ``(n, 1, 8, 8)`` to scores ``(n, 10)``.
        to_onnx: Returns the trained network as ONNX.
        epochs: Number of epochs.
        peak_learning_rate: The maximum of the one-cycle schedule.
    """

    name: str
    make_net: Callable[[], nn.Module]
    to_onnx: Callable[[nn.Module], onnx.ModelProto]
    epochs: int = 80
    peak_learning_rate: float = 4e-3


def constant(w: GraphWriter, name: str, values: NDArray[np.generic]) -> str:
    """Add a constant that is not a weight, for example a shape; return its name."""
    w.weights.append(numpy_helper.from_array(values, name))
    return name


def model_of(w: GraphWriter, name: str, opset: int = 17) -> onnx.ModelProto:
    """Return the model of the nodes that a script of this folder added."""
    return digits.model_of(w, name, f"examples/trained/{name}.py", opset)


def calibration_images(
    images: NDArray[np.uint8], _held: NDArray[np.uint8], labels: NDArray[np.uint8], _: object
) -> dict[str, NDArray[np.uint8]]:
    """Return the first training images of each digit, in turn, and their labels."""
    by_digit = [np.flatnonzero(labels == d)[:CALIBRATION_PER_DIGIT] for d in range(CLASSES)]
    chosen = np.stack(by_digit, axis=1).reshape(-1)
    return {"images": images[chosen], "labels": labels[chosen]}


def run(recipe: Recipe) -> int:
    """Run a recipe's script; return 1, and write nothing, if the model misses a target."""
    fit = functools.partial(
        digits.train,
        make_net=recipe.make_net,
        epochs=recipe.epochs,
        peak_learning_rate=recipe.peak_learning_rate,
    )
    data = "calibration.npz", calibration_images
    limits = MIN_ACCURACY, MAX_MODEL_BYTES
    return digits.run_script(recipe.name, HERE, fit, recipe.to_onnx, data, limits)
