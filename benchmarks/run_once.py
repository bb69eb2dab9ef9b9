"""A process that runs a network once and writes the outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.engines import ENGINES
from benchmarks.process import answer, request


def main() -> None:
    """Run the requested engine."""
    asked = request()
    inputs = dict(np.load(asked["inputs"]))
    outputs = ENGINES[asked["engine"]](asked["model"], 1).run(inputs)
    with Path(asked["output"]).open("wb") as file:
        np.savez(file, allow_pickle=False, **outputs)
    answer({})


if __name__ == "__main__":
    main()
