"""A process that builds a network and writes it as ONNX."""

from __future__ import annotations

import importlib
import sys

import onnx

from benchmarks.process import NETWORK_HELPERS, answer, request
from benchmarks.recipes import RECIPES


def main() -> None:
    """Build what is asked for."""
    asked = request()
    recipe = RECIPES[asked["name"]]
    sys.path.append(str(NETWORK_HELPERS))  # the tests' own networks, which lie outside every dist
    make = getattr(importlib.import_module(recipe.module), recipe.maker)
    onnx.save(make(**recipe.arguments), asked["output"], format="protobuf")
    answer({})


if __name__ == "__main__":
    main()
