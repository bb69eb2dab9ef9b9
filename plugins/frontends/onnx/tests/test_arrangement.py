"""Repeats, triangles and constants of a shape against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
N = helper.make_node


def data(*shape, dtype=F32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def ints(*values):
    return np.array(values, I64)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("repeats", [(2, 1, 3), (1, 1, 1), (1, 0, 2)])
def test_tile(check, opset, repeats) -> None:
    check("Tile", [data(2, 3, 1)], known=[ints(*repeats)], opset=opset)


def test_tile_that_cannot_be_converted(model, read) -> None:
    by_data, wrong = N("Tile", ["x", "r"], ["y"]), N("Tile", ["x", "k"], ["z"], name="few")
    with pytest.raises(
        UnsupportedOpError,
        match="repeats 'r' is computed from the model's inputs; it must be known when",
    ):
        read(model([by_data], {"x": data(2), "r": ints(2)}, ["y"]))
    with pytest.raises(FrontendError, match=r"repeats \(2, 2\) do not match \(2,\)"):
        read(model([wrong], {"x": data(2)}, ["z"], {"k": ints(2, 2)}))


def test_expand_is_one_tile_or_less(check) -> None:
    def ops(x, *shape):
        graph = check("Expand", [x], known=[ints(*shape)])
        return [n.op_type for n in graph.nodes]

    assert ops(data(2, 1, 3, 1), 2, 4, 1, 5) == ["Tile"]
    assert ops(data(3, 1), 2, 3, 4) == ["Reshape", "Tile"]
    assert ops(data(2, 3), 1, 1, 1) == ["Reshape"]
    assert "Tile" not in ops(data(2, 3), 1, 3)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -9, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3)])
def test_trilu(check, shape, k, upper) -> None:
    known = [] if k is None else [np.array(k, I64)]
    check("Trilu", [data(*shape) + 1], known=known, upper=upper)


def test_trilu_drops_what_is_no_number(check) -> None:
    check("Trilu", [np.full((2, 2), np.nan, F32)], upper=0)
    check("Trilu", [data(2, 2, dtype=I64) + 1])


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize("k", [0, 1, -2, 7, -7])
def test_eye_like(agree, model, opset, k) -> None:
    x = data(3, 4)
    nodes = [N("EyeLike", ["x"], ["e"], k=k), N("Add", ["x", "e"], ["y"])]
    graph = agree(model(nodes, {"x": x}, ["y"], opset=opset), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["ElementWiseAdd"]


def test_eye_of_another_type(agree, model) -> None:
    x = data(3, 3)
    nodes = [N("EyeLike", ["x"], ["e"], dtype=TensorProto.INT64), N("Add", ["i", "e"], ["y"])]
    nodes.append(N("Neg", ["x"], ["z"]))
    feeds = {"x": x, "i": data(3, 3, dtype=I64)}
    agree(model(nodes, feeds, ["y", "z"]), feeds)


@pytest.mark.parametrize("opset", [11, 27])
def test_range_of_a_shape(agree, model, opset) -> None:
    # Identity hides from the first look that the limit is known
    nodes = [
        N("Size", ["x"], ["n"]),
        N("Identity", ["n"], ["same"]),
        N("Range", ["zero", "same", "two"], ["r"]),
        N("Add", ["r", "i"], ["y"]),
        N("Neg", ["x"], ["z"]),
    ]
    known = {"zero": np.array(0, I64), "two": np.array(2, I64)}
    feeds = {"x": data(2, 3), "i": ints(5)}
    graph = agree(model(nodes, feeds, ["y", "z"], known, opset=opset), feeds)
    assert [n.op_type for n in graph.nodes] == ["ElementWiseAdd", "ElementWiseNeg"]


@pytest.mark.parametrize(
    ("node", "inputs", "said"),
    [
        (
            N("Range", ["k", "x", "k"], ["y"]),
            np.array(3, I64),
            "limit 'x' is computed from the model's inputs; it must be known when the",
        ),
        (
            N("ConstantOfShape", ["x"], ["y"]),
            ints(2),
            "shape 'x' is computed from the model's inputs; it must be known when the",
        ),
        (
            N("Trilu", ["m", "x"], ["y"]),
            np.array(1, I64),
            "diagonal 'x' is computed from the model's inputs; it must be known when",
        ),
        (
            N("Expand", ["m", "x"], ["y"]),
            ints(2, 2),
            "shape 'x' is computed from the model's inputs; it must be known when the",
        ),
    ],
)
def test_what_the_data_say_is_refused(model, read, node, inputs, said) -> None:
    known = {"k": np.array(1, I64), "m": data(2, 2)}
    with pytest.raises(UnsupportedOpError, match=said):
        read(model([node], {"x": inputs}, ["y"], known))
