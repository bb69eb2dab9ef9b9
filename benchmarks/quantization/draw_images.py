"""A process that writes the images of a network: for calibration and for tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from benchmarks.process import NETWORK_HELPERS, answer, request

Images = npt.NDArray[np.float32]

# Number of points along each side of an image at each scale, from coarse to fine.
SCALES = (4, 16, 64)
SEEDS = {"calibration": 11, "test": 12}


def drawn(shape: tuple[int, ...], count: int, seed: int) -> Images:
    """Draw smooth images with some noise, mean 0 and variance 1 over all of them.

    Args:
        shape: Shape of one input, (1, c, h, w).
        count: Number of images.
        seed: Seed of the generator.

    Returns:
        Images (count, 1, c, h, w).
    """
    rng = np.random.default_rng(seed)
    *lead, height, width = (count, *shape)
    made = rng.standard_normal((*lead, height, width), np.float32)
    for points in SCALES:
        coarse = rng.standard_normal((*lead, points, points), np.float32)
        made += _between(points, height) @ coarse @ _between(points, width).T
    return np.asarray((made - made.mean()) / made.std(), np.float32)


def _between(points: int, count: int) -> Images:
    """Return the matrix (count, points) that interpolates linearly between points."""
    places = np.linspace(0, points - 1, count)
    apart = np.abs(places[:, None] - np.arange(points))
    return np.asarray(np.maximum(0, 1 - apart), np.float32)


def _real(calibration: int, test: int) -> dict[str, Images]:
    """Return the trained networks' images, (n, 1, 1, 8, 8), and the labels (n,)."""
    sys.path.append(str(NETWORK_HELPERS))  # the tests' helpers, which no dist contains
    trained = importlib.import_module("trained")
    images, labels = trained.held_out()
    return {
        "calibration": trained.calibration(calibration)[:, None],
        "test": images[:test, None],
        "labels": labels[:test],
    }


def main() -> None:
    """Write the requested images."""
    asked = request()
    counts = {name: asked[name] for name in SEEDS}
    if asked["trained"]:
        images = _real(**counts)
    else:
        graph = onnx.load(asked["model"], load_external_data=False).graph
        filled = {initializer.name for initializer in graph.initializer}
        (given,) = (each for each in graph.input if each.name not in filled)
        shape = tuple(d.dim_value for d in given.type.tensor_type.shape.dim)
        images = {name: drawn(shape, n, SEEDS[name]) for name, n in counts.items()}
    with Path(asked["output"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **images)
    answer({})


if __name__ == "__main__":
    main()
