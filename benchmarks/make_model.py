"""A process that builds a network and writes it as ONNX."""

from __future__ import annotations

import importlib
import sys

import onnx

from benchmarks.process import NETWORK_HELPERS, answer, request
from benchmarks.recipes import RECIPES


def main() -> None:
    """Build the requested network."""
    asked = request()
    recipe = RECIPES[asked["name"]]
    sys.path.append(str(NETWORK_HELPERS))  # the tests' networks, which no dist contains
    make = getattr(importlib.import_module(recipe.module), recipe.maker)
    onnx.save(make(**recipe.arguments), asked["output"], format="protobuf")
    answer({})


if __name__ == "__main__":
    main()
