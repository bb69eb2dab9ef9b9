"""Assignments to masked elements, in the forms in which PyTorch exports them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from dovetail.errors import UnsupportedOpError

N = helper.make_node
F32, I64 = np.float32, np.int64
SHAPE = (2, 5, 4)
VECTOR = np.array([1, 2, 3, 4], F32)


@pytest.fixture
def x(rng):
    return rng.standard_normal(SHAPE).astype(F32)


def assignment(mask: str, count: list, new: str, *, flat: bool = False) -> list:
    """Return nodes that assign copies of `new` to the masked places of x."""
    return [
        N("NonZero", [mask], ["found"]),
        N("Transpose", ["found"], ["places"], perm=[1, 0]),
        *count,
        N("Expand", [new, "count"], ["copies"]),
        *([N("Reshape", ["copies", "one"], ["values"])] if flat else []),
        N("ScatterND", ["x", "places", "values" if flat else "copies"], ["y"], name="set"),
    ]


def counted(mask: str, *more: str) -> list:
    """Return nodes that count the places of a mask, and join further sizes."""
    return [
        N("Reshape", [mask, "one"], ["row"]),
        N("Cast", ["row"], ["number"], to=TensorProto.INT64),
        N("ReduceSum", ["number"], ["total" if more else "count"], keepdims=1),
        *([N("Concat", ["total", *more], ["count"], axis=0)] if more else []),
    ]


CONSTANTS = {
    "one": np.array([-1], I64),
    "four": np.array([4], I64),
    "whole": np.array(SHAPE, I64),
    "last": np.array([2], I64),
    "zero": np.array(0, F32),
    "vector": VECTOR,
}


def declare(model: ModelProto, **shapes: tuple[int, ...]) -> ModelProto:
    for name, shape in shapes.items():
        kind = TensorProto.FLOAT if name == "new" else TensorProto.BOOL
        model.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    return model


@pytest.mark.parametrize("flat", [False, True])
def test_a_number_for_single_elements(agree, model, x, flat) -> None:
    nodes = [N("Less", ["x", "zero"], ["mask"]), *assignment("mask", counted("mask"), "zero")]
    if flat:
        nodes = [nodes[0], *assignment("mask", counted("mask"), "zero", flat=True)]
    graph = agree(declare(model(nodes, {"x": x}, ["y"], CONSTANTS), mask=SHAPE), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["ElementWiseLess", "ElementWiseSelect"]
    assert "set" in graph.nodes[-1].sources


def test_a_number_that_is_computed(agree, model, x) -> None:
    mean = N("ReduceMean", ["x"], ["new"], keepdims=0)
    nodes = [N("Less", ["x", "zero"], ["mask"]), mean]
    nodes += assignment("mask", counted("mask"), "new")
    made = declare(model(nodes, {"x": x}, ["y"], CONSTANTS), mask=SHAPE, new=())
    graph = agree(made, {"x": x})
    assert "ElementWiseSelect" in [n.op_type for n in graph.nodes]


@pytest.mark.parametrize("new", ["zero", "vector"])
def test_slices(agree, model, x, rng, new) -> None:
    feeds = {"x": x, "mask": rng.random((2, 5)) < 0.5}
    nodes = assignment("mask", counted("mask", "four"), new)
    agree(model(nodes, feeds, ["y"], CONSTANTS), feeds)


def test_a_mask_of_slices_that_was_expanded(agree, model, x, rng) -> None:
    feeds = {"x": x, "mask": rng.random((2, 5)) < 0.5}
    nodes = [
        N("Unsqueeze", ["mask", "last"], ["column"]),
        N("Expand", ["column", "whole"], ["all"]),
        *assignment("all", counted("mask", "four"), "vector", flat=True),
    ]
    made = declare(model(nodes, feeds, ["y"], CONSTANTS), column=(2, 5, 1), all=SHAPE)
    agree(made, feeds)


def test_an_empty_mask_and_a_full_one(agree, model, x) -> None:
    for value in (False, True):
        feeds = {"x": x, "mask": np.full(SHAPE, value)}
        agree(model(assignment("mask", counted("mask"), "zero"), feeds, ["y"], CONSTANTS), feeds)


def different_values(x) -> tuple[list, dict]:
    # four values for four places, which only the data can have
    mask = np.zeros(SHAPE, bool)
    mask[0, 0] = True
    return assignment("mask", counted("mask"), "vector"), {"x": x, "mask": mask}


def unknown_rank(x) -> tuple[list, dict]:
    nodes = [N("Less", ["x", "zero"], ["mask"]), *assignment("mask", counted("mask"), "zero")]
    return nodes, {"x": x}


def a_sum(x) -> tuple[list, dict]:
    nodes = assignment("mask", counted("mask"), "zero")
    nodes[-1].attribute.append(helper.make_attribute("reduction", "add"))
    return nodes, {"x": x, "mask": x < 0}


def places_that_others_read(x) -> tuple[list, dict]:
    nodes = assignment("mask", counted("mask"), "zero")
    nodes[-1].output[0] = "z"
    size = N("Size", ["places"], ["size"])
    return [
        *nodes,
        size,
        N("Cast", ["size"], ["s"], to=TensorProto.FLOAT),
        N("Add", ["z", "s"], ["y"]),
    ], {
        "x": x,
        "mask": x < 0,
    }


@pytest.mark.parametrize("form", [different_values, unknown_rank, a_sum, places_that_others_read])
def test_what_is_no_choice_is_not_taken_for_one(read, model, x, form) -> None:
    nodes, feeds = form(x)
    with pytest.raises(UnsupportedOpError, match="NonZero"):
        read(model(nodes, feeds, ["y"], CONSTANTS, opset=18))
