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
    ("shape", "image", "block", "attributes", "message"),
    [
        ((1, 7, 9), (4, 4), (2, 2), {}, "7 rows are no multiple of the 4 elements"),
        ((1, 8, 8), (4, 4), (2, 2), {}, "8 columns"),
        ((8, 9), (4, 4), (2, 2), {}, "rank 3"),
        ((1, 8, 9), (4, 4), (2,), {}, "kernel"),
        ((1, 8, 9), (4, 4, 4), (2, 2, 2), {}, "3 dimensions; one or two can be converted"),
        ((1, 8, 9), (4, 4), (2, 2), {"pads": [-1, 0, 0, 0]}, "must not be negative"),
    ],
)
def test_refusals(model, read, shape, image, block, attributes, message) -> None:
    known = {"image": np.array(image, I64), "block": np.array(block, I64)}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    with pytest.raises((FrontendError, UnsupportedOpError), match=message):
        read(model([node], {"x": np.zeros(shape, F32)}, ["y"], known, opset=18))
