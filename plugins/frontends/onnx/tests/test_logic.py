"""Comparisons, logic and choice against the peer, over versions, broadcasting and types."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

SHAPES = [((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((), (2,)), ((0, 3), (3,))]
COMPARISONS = {
    "Equal": (7, 11, 13, 19),
    "Greater": (7, 9, 13),
    "GreaterOrEqual": (12, 16),
    "Less": (7, 9, 13),
    "LessOrEqual": (12, 16),
}


@pytest.mark.parametrize(
    ("op_type", "opset"), [(name, v) for name, versions in COMPARISONS.items() for v in versions]
)
@pytest.mark.parametrize("shapes", SHAPES)
def test_comparisons(check, rng, op_type, opset, shapes) -> None:
    dtype = np.int64 if op_type == "Equal" and opset < 11 else np.float32
    a, b = (rng.integers(0, 3, shape).astype(dtype) for shape in shapes)
    graph = check(op_type, [a, b], opset=opset)
    assert len(graph.nodes) == 1
    check(op_type, [a], known=[b], opset=opset)


@pytest.mark.parametrize("op_type", COMPARISONS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float16, np.float64])
def test_comparisons_of_other_types(check, op_type, dtype) -> None:
    a, b = np.array([1, 2, 3], dtype), np.array([[2], [3]], dtype)
    if dtype is not np.float16 or op_type == "Equal":  # the peer compares no other float16
        check(op_type, [a, b], opset=19)


def test_truth_values_can_be_equal(check) -> None:
    check("Equal", [np.array([True, False]), np.array([True])], opset=7)


def test_nan_compares_with_nothing(check) -> None:
    x = np.array([np.nan, 1, np.inf, -np.inf], np.float32)
    for op_type in COMPARISONS:
        check(op_type, [x[:, None], x], opset=19)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_logic(check, rng, op_type, shapes) -> None:
    check(op_type, [np.asarray(rng.random(shape) < 0.5) for shape in shapes], opset=7)


@pytest.mark.parametrize("opset", [7, 21])
def test_not(check, opset) -> None:
    check("Not", [np.array([[True, False]])], opset=opset)


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((2, 1), (), (0,))]
)
def test_where(check, rng, dtype, shapes, opset) -> None:
    condition = rng.random(shapes[0]) < 0.5
    a, b = (np.asarray(rng.integers(0, 9, shape), dtype) for shape in shapes[1:])
    check("Where", [condition, a, b], opset=opset)
    check("Where", [condition, a], known=[b], opset=opset)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize(
    ("chosen", "other", "is_whole"),
    [((2, 3), (3,), True), ((2, 3), (), True), ((3,), (2, 3), False), ((2, 1), (1, 3), False)],
)
def test_a_choice_that_is_known(agree, model, rng, taken, chosen, other, is_whole) -> None:
    """An input that is chosen as a whole is the result; the other may be NaN."""
    feeds = {"x": rng.normal(size=chosen).astype(np.float32)}
    constants = {"c": np.full((1, 3), taken), "nan": np.full(other, np.nan, np.float32)}
    inputs = ["c", "x", "nan"] if taken else ["c", "nan", "x"]
    nodes = [helper.make_node("Where", inputs, ["w"]), helper.make_node("Abs", ["w"], ["y"])]
    graph = agree(model(nodes, feeds, ["y"], constants), feeds)
    ops = [node.op_type for node in graph.nodes]
    assert ops == (["ElementWiseAbs"] if is_whole else ["ElementWiseSelect", "ElementWiseAbs"])


def test_a_mask_before_a_softmax(agree, model, rng) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["far"]),
        helper.make_node("Not", ["far"], ["near"]),
        helper.make_node("And", ["near", "keep"], ["seen"]),
        helper.make_node("Where", ["seen", "x", "least"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
    ]
    feeds = {
        "x": rng.standard_normal((2, 4, 5)).astype(np.float32),
        "keep": np.tril(np.ones((4, 5), np.bool_)),
    }
    constants = {"limit": np.float32(1.5).reshape(()), "least": np.array([-1e30], np.float32)}
    graph = agree(model(nodes, feeds, ["y"], constants), feeds)
    assert [n.op_type for n in graph.nodes][:4] == [
        "ElementWiseGreater",
        "ElementWiseNot",
        "ElementWiseAnd",
        "ElementWiseSelect",
    ]
