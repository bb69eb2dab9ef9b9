"""A process that draws a model's inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from benchmarks.process import answer, request


def main() -> None:
    """Draw normal values of variance one, which the networks' layers preserve."""
    asked = request()
    graph = onnx.load(asked["model"]).graph
    filled = {initializer.name for initializer in graph.initializer}
    rng = np.random.default_rng(0)
    drawn = {
        given.name: rng.standard_normal(
            [d.dim_value for d in given.type.tensor_type.shape.dim], np.float32
        )
        for given in graph.input
        if given.name not in filled
    }
    with Path(asked["output"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **drawn)
    answer({})


if __name__ == "__main__":
    main()
