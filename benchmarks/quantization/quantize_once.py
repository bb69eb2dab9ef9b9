"""A process that quantizes one network with one quantizer, and measures time and memory."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.gauges import peak_memory_mb
from benchmarks.process import answer, request
from benchmarks.quantization.quantizers import QUANTIZERS


def main() -> None:
    """Load, calibrate, quantize and write; all of this is timed."""
    asked = request()
    with np.load(asked["data"]) as data:
        images = list(data["calibration"])
    quantizer = QUANTIZERS[asked["quantizer"]]()
    start = time.perf_counter()
    quantizer.quantize(asked["model"], images, asked["output"])
    seconds = time.perf_counter() - start
    answer({"seconds": seconds, "peak_mb": peak_memory_mb(), "version": quantizer.version})


if __name__ == "__main__":
    main()
