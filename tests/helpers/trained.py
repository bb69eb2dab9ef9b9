"""The trained networks of `examples/`, with real data: for the tests that cross dists, and for
the benchmarks. `networks` beside this has the others, whose weights are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.uint8]

EXAMPLES = Path(__file__).parents[2] / "examples"
INPUT, OUTPUT = "image", "scores"


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """A trained network, of images `(n, 1, 8, 8)` in 0..1 to scores `(n, 10)`.

    Attributes:
        name: What it is called, as its file.
        path: The ONNX file, whose first dimension is open (`batch`).
        right: How many of the held-out images the float network gets right.
    """

    name: str
    path: Path
    right: int

    def count_right(self, scores: Images) -> int:
        """Return how many held-out images the scores `(n, 10)` classify right."""
        _, labels = held_out()
        if scores.shape != (len(labels), 10):
            raise ValueError(f"scores of {len(labels)} images wanted, not of shape {scores.shape}")
        return int((scores.argmax(axis=1) == labels).sum())


def _network(name: str, right: int, folder: str = "trained") -> TrainedNetwork:
    return TrainedNetwork(name, EXAMPLES / folder / f"{name}.onnx", right)


# The figures are those of examples/trained/README.md; a test compares them.
TRAINED: Mapping[str, TrainedNetwork] = {
    network.name: network
    for network in (
        _network("digits", 358, folder="digits"),
        _network("depthwise", 358),
        _network("scaled", 359),
        _network("attention", 356),
        _network("recurrent", 357),
    )
}


def calibration(count: int = 200) -> Images:
    """Return the first images to calibrate with, `(count, 1, 8, 8)`; none is a held-out one.

    Each ten hold every digit. The networks were trained on them, among others.

    Raises:
        ValueError: There are not as many.
    """
    images, _ = _load(EXAMPLES / "trained" / "calibration.npz")
    if not 0 < count <= len(images):
        raise ValueError(f"there are {len(images)} images to calibrate with, not {count}")
    return images[:count]


def held_out() -> tuple[Images, Labels]:
    """Return the images that no network was trained on, `(360, 1, 8, 8)`, and their digits."""
    return _load(EXAMPLES / "digits" / "heldout.npz")


def _load(path: Path) -> tuple[Images, Labels]:
    with np.load(path) as file:
        return file["images"][:, None].astype(np.float32) / np.float32(16), file["labels"]
