"""Outputs that are not what the file says of them: renamed, or of another shape, with a warning."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from onnx import helper

from dovetail_onnx import OnnxOptions

N = helper.make_node
X = np.ones((2, 3), np.float32)


@pytest.fixture
def warnings(read, caplog):
    """Read a model and return its outputs and the warnings."""

    def run(made, **options):
        with caplog.at_level(logging.WARNING, "dovetail.onnx"):
            graph = read(made, OnnxOptions(**options))
        return {t.name: t.shape for t in graph.outputs}, caplog.messages

    return run


@pytest.fixture
def declaring(model):
    """Create a model of one Relu from dims to declared dims."""

    def make(dims, declared):
        made = model([N("Relu", ["x"], ["y"])], {"x": (1, dims)}, ["y"])
        made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, declared))
        return made

    return make


def test_an_output_that_is_an_input_is_renamed(model, warnings) -> None:
    found, told = warnings(model([N("Relu", ["x"], ["y"])], {"x": X}, ["x", "y"]))
    assert list(found) == ["x.out", "y"]
    assert told == ["output 'x' is an input too; the output gets the name 'x.out'"]


def test_a_second_name_of_a_tensor_stays(model, warnings) -> None:
    nodes = [N("Relu", ["x"], ["y"]), N("Identity", ["y"], ["z"])]
    found, told = warnings(model(nodes, {"x": X}, ["y", "z"]))
    assert list(found) == ["y", "z"]
    assert told == []


@pytest.mark.parametrize(
    ("declared", "text"), [((2, 4), "(2, 4)"), ((2, 3, 1), "(2, 3, 1)"), (("N", 4), "(N, 4)")]
)
def test_a_declared_shape_that_cannot_be(declaring, warnings, declared, text) -> None:
    found, told = warnings(declaring((2, 3), declared))
    assert found == {"y": (2, 3)}
    assert told == [f"output 'y' is declared as {text} in the model, but its shape is (2, 3)"]


@pytest.mark.parametrize("declared", [(2, 3), ("N", 3), (None, "T"), (0, -1), None])
def test_a_declared_shape_that_may_be(declaring, warnings, declared) -> None:
    assert warnings(declaring((2, 3), declared)) == ({"y": (2, 3)}, [])


def test_shapes_that_the_user_changes_are_no_contradiction(declaring, warnings) -> None:
    assert warnings(declaring((1, 3), (1, 3)), batch=5) == ({"y": (5, 3)}, [])
