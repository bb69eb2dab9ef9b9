"""Pooling against the peer: padding, rounding and divisors are where runtimes differ."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

F32 = np.float32
WINDOWS = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [0, 1, 2, 0]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 2], "auto_pad": "VALID"},
]
# Sizes at which the last window begins inside, ends beyond, or would begin in the padding behind.
CEIL = [
    {"kernel_shape": [3, 3], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 0, 1, 0]},
    {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
]


def negative(rng, *shape):
    """Numbers below 0: padding with 0 would win every maximum."""
    return (-rng.uniform(1, 2, shape)).astype(F32)


@pytest.mark.parametrize("opset", [7, 8, 10, 11, 12, 22])
@pytest.mark.parametrize("window", WINDOWS)
def test_max(check, rng, opset, window) -> None:
    check("MaxPool", [negative(rng, 2, 3, 9, 8)], opset=opset, **window)


@pytest.mark.parametrize("size", [(7, 7), (8, 8), (9, 6), (6, 9), (5, 10)])
@pytest.mark.parametrize("window", CEIL)
@pytest.mark.parametrize("opset", [11, 22])
def test_max_rounded_up(check, rng, opset, window, size) -> None:
    check("MaxPool", [negative(rng, 1, 2, *size)], opset=opset, ceil_mode=1, **window)


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("include", [0, 1])
def test_average(check, rng, opset, window, include) -> None:
    x = rng.standard_normal((2, 3, 9, 8)).astype(F32)
    check("AveragePool", [x], opset=opset, count_include_pad=include, **window)


@pytest.mark.parametrize("size", [(7, 7), (8, 8), (9, 6), (6, 9), (5, 10)])
@pytest.mark.parametrize("window", CEIL)
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("opset", [11, 22])
def test_average_rounded_up(check, rng, opset, window, include, size) -> None:
    x = rng.standard_normal((1, 2, *size)).astype(F32)
    check("AveragePool", [x], opset=opset, ceil_mode=1, count_include_pad=include, **window)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_one_dimension(check, rng, op_type) -> None:
    x = negative(rng, 2, 3, 11)
    check(op_type, [x], kernel_shape=[3], strides=[2], pads=[1, 1])


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("spatial", [(6,), (5, 7), (3, 4, 5)])
def test_global(check, rng, op_type, opset, spatial) -> None:
    check(op_type, [negative(rng, 2, 3, *spatial)], opset=opset)


def padded_pool(model, first: str, x):
    nodes = [
        helper.make_node(first, ["x"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    return model(nodes, {"x": x}, ["y"])


def test_padding_stays_in_the_pool_where_nothing_is_negative(agree, model, rng) -> None:
    x = rng.standard_normal((1, 2, 6, 6)).astype(F32)
    graph = agree(padded_pool(model, "Relu", x), {"x": x})
    assert "Pad" not in [n.op_type for n in graph.nodes]
    graph = agree(padded_pool(model, "Tanh", x), {"x": x})
    assert "Pad" in [n.op_type for n in graph.nodes]


def test_indices_and_dilations_are_refused(model, read, rng) -> None:
    x = rng.standard_normal((1, 2, 6, 6)).astype(F32)
    indices = helper.make_node("MaxPool", ["x"], ["y", "i"], name="indexed", kernel_shape=[2, 2])
    dilated = helper.make_node("MaxPool", ["x"], ["z"], kernel_shape=[2, 2], dilations=[2, 2])
    with pytest.raises(UnsupportedOpError) as caught:
        read(model([indices, dilated], {"x": x}, ["y", "i", "z"]))
    messages = [str(p) for p in caught.value.problems]
    assert len(messages) == 2
    assert "indices" in messages[0]
    assert "dilations" in messages[1]
