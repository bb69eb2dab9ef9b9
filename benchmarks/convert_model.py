"""A process that converts a model."""

from __future__ import annotations

import dovetail
from benchmarks.process import answer, request


def main() -> None:
    """Convert as `dovetail.convert` does by default."""
    asked = request()
    dovetail.convert(asked["model"]).save(asked["output"])
    answer({})


if __name__ == "__main__":
    main()
