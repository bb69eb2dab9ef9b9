"""What the training scripts of this folder share: the data, and the steps from recipe to file.

All but the networks is that of ``examples/digits/train.py``, whose docstring says what to install;
360 images are held out before anything else happens.
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
    """Create the model of what one of this folder's scripts wrote."""
    return digits.model_of(w, name, f"examples/trained/{name}.py", opset)


def calibration_images(
    images: NDArray[np.uint8], _held: NDArray[np.uint8], labels: NDArray[np.uint8], _: object
) -> dict[str, NDArray[np.uint8]]:
    """Return the first of the training images of each digit, digit after digit, and their labels."""
    by_digit = [np.flatnonzero(labels == d)[:CALIBRATION_PER_DIGIT] for d in range(CLASSES)]
    chosen = np.stack(by_digit, axis=1).reshape(-1)
    return {"images": images[chosen], "labels": labels[chosen]}


def run(recipe: Recipe) -> int:
    """Run a recipe's script; gives 1, and writes nothing, when the model misses a target."""
    fit = functools.partial(
        digits.train,
        make_net=recipe.make_net,
        epochs=recipe.epochs,
        peak_learning_rate=recipe.peak_learning_rate,
    )
    beside = "calibration.npz", calibration_images
    limits = MIN_ACCURACY, MAX_MODEL_BYTES
    return digits.run_script(recipe.name, HERE, fit, recipe.to_onnx, beside, limits)
