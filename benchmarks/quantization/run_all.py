"""A process that runs a network on all test images and writes the outputs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.process import answer, request
from benchmarks.quantization.quantizers import QUANTIZERS, OnnxRuntime


def main() -> None:
    """Run a quantized network with its quantizer's simulation; `float` with ONNX Runtime."""
    asked = request()
    with np.load(asked["data"]) as data:
        images = data["test"]
    chosen = asked["quantizer"]
    run = OnnxRuntime().run_float if chosen == "float" else QUANTIZERS[chosen]().run
    start = time.perf_counter()
    found = list(run(asked["model"], images))
    seconds = time.perf_counter() - start
    together = {name: np.stack([each[name] for each in found]) for name in found[0]}
    with Path(asked["output"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **together)
    answer({"seconds": seconds})


if __name__ == "__main__":
    main()
