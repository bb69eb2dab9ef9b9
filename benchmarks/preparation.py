"""Tasks that write the files of a network; each runs in a process of its own."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.engines import write_arrays
from benchmarks.process import NETWORK_HELPERS
from benchmarks.recipes import RECIPES

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

# Libraries are imported in the functions: no process needs all of them.


def build(*, name: str, output: str) -> None:
    """Build a network and write it as ONNX."""
    import onnx

    recipe = RECIPES[name]
    sys.path.append(str(NETWORK_HELPERS))  # the tests' networks, which no dist contains
    make = getattr(importlib.import_module(recipe.module), recipe.maker)
    onnx.save(make(**recipe.arguments), output, format="protobuf")


def convert(*, model: str, output: str) -> None:
    """Convert a model with the default options of `dovetail.convert`."""
    import dovetail

    dovetail.convert(model).save(output)


def draw_inputs(*, model: str, output: str) -> None:
    """Draw normal values of variance one, which the networks' layers preserve."""
    import onnx

    rng = np.random.default_rng(0)
    drawn = {
        given.name: rng.standard_normal(shape_of(given), np.float32)
        for given in free_inputs(onnx.load(model).graph)
    }
    write_arrays(output, drawn)


def free_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """Return the inputs of a graph that no initializer fills."""
    filled = {initializer.name for initializer in graph.initializer}
    return [given for given in graph.input if given.name not in filled]


def shape_of(given: ValueInfoProto) -> tuple[int, ...]:
    """Return the shape of an input."""
    return tuple(d.dim_value for d in given.type.tensor_type.shape.dim)
