"""Col2Im against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64


@pytest.mark.parametrize(
    ("image", "block", "places", "attributes"),
    [
        ((5, 6), (2, 3), 16, {}),
        ((5, 6), (1, 5), 10, {}),
        ((6, 7), (2, 3), 16, {"pads": [1, 0, 1, 2], "strides": [2, 2]}),
        ((5, 7), (2, 2), 18, {"dilations": [2, 1]}),
        ((7,), (3,), 5, {}),
        ((9,), (3,), 5, {"strides": [2], "pads": [1, 1]}),
    ],
)
def test_attributes(check, rng, image, block, places, attributes) -> None:
    x = rng.standard_normal((2, 3 * int(np.prod(block)), places)).astype(F32)
    known = [np.array(image, I64), np.array(block, I64)]
    graph = check("Col2Im", [x], known=known, opset=18, **attributes)
    assert [n.op_type for n in graph.nodes].count("Col2Im") == 1


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((4, 5, 6), (2, 3, 2), {}),
        ((5, 4, 7), (2, 2, 3), {"strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]}),
        ((5, 3, 5), (3, 2, 2), {"dilations": [2, 1, 3]}),
        ((3, 1, 2), (1, 1, 2), {"pads": [0, 1, 0, 0, 0, 0]}),
    ],
)
def test_volumes(model, read, evaluate, rng, image, block, attributes) -> None:
    # ONNX Runtime has images only: the meaning, place by place
    strides = attributes.get("strides", [1] * 3)
    dilations = attributes.get("dilations", [1] * 3)
    pads = attributes.get("pads", [0] * 6)
    counts = [
        (n + pads[a] + pads[a + 3] - (block[a] - 1) * dilations[a] - 1) // strides[a] + 1
        for a, n in enumerate(image)
    ]
    x = rng.standard_normal((2, 3, *block, *counts)).astype(F32)
    wanted = np.zeros((2, 3, *image), F32)
    for tap in np.ndindex(*block):
        for window in np.ndindex(*counts):
            place = tuple(
                window[a] * strides[a] + tap[a] * dilations[a] - pads[a] for a in range(3)
            )
            if all(0 <= p < n for p, n in zip(place, image, strict=True)):
                wanted[(..., *place)] += x[(..., *tap, *window)]
    known = {"image": np.array(image, I64), "block": np.array(block, I64)}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    columns = x.reshape(2, 3 * int(np.prod(block)), -1)
    graph = read(model([node], {"x": columns}, ["y"], known, opset=18))
    # sums of up to twelve numbers, in another order
    np.testing.assert_allclose(evaluate(graph, {"x": columns})["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "image", "block", "attributes", "message"),
    [
        ((1, 7, 9), (4, 4), (2, 2), {}, "7 rows are not a multiple of the 4 elements of a block"),
        ((1, 8, 8), (4, 4), (2, 2), {}, "8 columns"),
        ((8, 9), (4, 4), (2, 2), {}, "rank 3"),
        ((1, 8, 9), (4, 4), (2,), {}, "kernel"),
        ((1, 8, 9), (4, 4, 4), (2, 2, 2), {}, "input has 9 columns, but the image takes 27"),
        (
            (1, 16, 9),
            (4,) * 4,
            (2,) * 4,
            {},
            "unsupported image of 4 dimensions; expected one to three",
        ),
        ((1, 8, 9), (4, 4), (2, 2), {"pads": [-1, 0, 0, 0]}, "must not be negative"),
    ],
)
def test_refusals(model, read, shape, image, block, attributes, message) -> None:
    known = {"image": np.array(image, I64), "block": np.array(block, I64)}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    with pytest.raises((FrontendError, UnsupportedOpError), match=message):
        read(model([node], {"x": np.zeros(shape, F32)}, ["y"], known, opset=18))
