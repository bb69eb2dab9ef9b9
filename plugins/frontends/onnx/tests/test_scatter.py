"""Scattering and one-hot vectors against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
N = helper.make_node
ROWS = np.array([[1], [-3]], I64)


def data(*shape, dtype=F32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape) - 4


@pytest.mark.parametrize(
    ("name", "opset"), [("Scatter", 9), *(("ScatterElements", v) for v in (11, 13, 16, 18))]
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements(check, name, opset, axis) -> None:
    # without double indices: ONNX does not say which one stays
    indices = np.array([[0, 2, -2]], I64) if axis else np.array([[1], [-3]], I64)
    updates = data(*indices.shape) + 0.5
    check(name, [data(3, 3), indices, updates], opset=opset, axis=axis)
    check(name, [data(3, 3)], known=[indices, updates], opset=opset, axis=axis)


@pytest.mark.parametrize(
    ("opset", "reduction"),
    [(16, "add"), (16, "mul"), (18, "add"), (18, "mul"), (18, "max"), (18, "min")],
)
def test_reductions(check, opset, reduction) -> None:
    indices = np.array([[0, 2, 0, -3]], I64)
    updates = np.array([[3, -9, 5, -2]], F32)
    params = {"opset": opset, "reduction": reduction}
    check("ScatterElements", [data(2, 3), indices, updates], axis=1, **params)
    check("ScatterND", [data(3, 2)], known=[ROWS, data(2, 2) * 2], **params)
    twice = np.array([[[0, 1]], [[0, 1]]], I64)
    check("ScatterND", [data(3, 2)], known=[twice, np.array([[9], [-9]], F32)], **params)
    if reduction in ("add", "mul"):
        check("ScatterND", [data(3, 2), ROWS, data(2, 2)], **params)


@pytest.mark.parametrize("opset", [11, 13, 16, 18])
@pytest.mark.parametrize("dtype", [F32, np.int32, I64])
def test_scatter_nd(check, opset, dtype) -> None:
    x = data(3, 2, dtype=dtype)
    check("ScatterND", [x, ROWS, data(2, 2, dtype=dtype)], opset=opset)
    check("ScatterND", [x], known=[ROWS, data(2, 2, dtype=dtype)], opset=opset)
    places = np.array([[[0, 1], [2, -2]]], I64)
    check("ScatterND", [x, places, data(1, 2, dtype=dtype)], opset=opset)


@pytest.mark.parametrize(
    ("name", "x", "said"),
    [
        ("ScatterElements", data(3, 2, dtype=I64), "reduction 'min' of INT_64"),
        ("ScatterND", data(3, 2), "reduction 'min', 'i' is computed from the model's inputs"),
    ],
)
def test_reductions_that_are_refused(model, read, name, x, said) -> None:
    node = N(name, ["x", "i", "u"], ["y"], reduction="min")
    inputs = {"x": x, "i": np.zeros((1, 1), I64), "u": x[:1, :1] if name[-1] == "s" else x[:1]}
    with pytest.raises(UnsupportedOpError, match=said):
        read(model([node], inputs, ["y"], opset=18))


def test_scatter_beyond_the_end_is_refused(model, read) -> None:
    node = N("ScatterND", ["x", "i", "u"], ["y"], name="put")
    known = {"i": np.array([[0], [3]], I64)}
    with pytest.raises(FrontendError, match="index 3 is out of range for 3 elements") as caught:
        read(model([node], {"x": data(3, 2), "u": data(2, 2)}, ["y"], known))
    assert caught.value.problems[0].where == "ScatterND node 'put'"


@pytest.mark.parametrize("opset", [9, 11, 28])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(check, opset, axis) -> None:
    known = [np.array(3, I64), np.array([-1, 2.5], F32)]
    # the last two are out of range, so nothing is on
    indices = np.array([[0, 2, -1], [-3, 3, -4]], I64)
    check("OneHot", [indices], known=known, opset=opset, axis=axis)


@pytest.mark.parametrize("indices", [np.int32, np.uint8, F32])
@pytest.mark.parametrize(
    "values", [np.array([0, 2**40], I64), np.array([False, True]), np.array([1 / 3, 2], F32)]
)
def test_one_hot_types(read, model, run, indices, values) -> None:
    # without a peer: ONNX Runtime has kernels for few pairs of types
    x = np.array([2, 0], indices)
    node = N("OneHot", ["x", "depth", "values"], ["y"])
    known = {"depth": np.array([3], I64), "values": values}
    y = run(read(model([node], {"x": x}, ["y"], known)), {"x": x})["y"]
    want = np.array([[values[0], values[0], values[1]], [values[1], values[0], values[0]]])
    np.testing.assert_array_equal(y, want, strict=True)


@pytest.mark.parametrize("depth", [np.array(3, I64), np.array([3], I64)])
def test_one_hot_of_constants(read, model, run, depth) -> None:
    nodes = [N("OneHot", ["i", "depth", "values"], ["hot"]), N("Add", ["x", "hot"], ["y"])]
    known = {"i": np.array([2, 0], I64), "depth": depth, "values": np.array([0, 1], F32)}
    x = data(2, 3)
    graph = read(model(nodes, {"x": x}, ["y"], known))
    assert [node.op_type for node in graph.nodes] == ["ElementWiseAdd"]
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], x + np.eye(3, dtype=F32)[[2, 0]])


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("depth", "depth 'depth' is computed from the model's inputs; it must be known when"),
        ("values", "values 'values' is computed from the model's inputs; it must be known"),
    ],
)
def test_one_hot_of_the_data_is_refused(model, read, left_out, said) -> None:
    known = {"depth": np.array(3, I64), "values": np.array([0, 1], F32)}
    inputs = {"x": np.array([0], I64), left_out: known.pop(left_out)}
    node = N("OneHot", ["x", "depth", "values"], ["y"])
    with pytest.raises(UnsupportedOpError, match=said):
        read(model([node], inputs, ["y"], known))
