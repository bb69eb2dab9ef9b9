"""A process that converts a model."""

from __future__ import annotations

import dovetail
from benchmarks.process import answer, request


def main() -> None:
    """Convert with the default options of `dovetail.convert`."""
    asked = request()
    dovetail.convert(asked["model"]).save(asked["output"])
    answer({})


if __name__ == "__main__":
    main()
