"""Random numbers: types, shapes and statistics; the peer draws others."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import UnsupportedOpError

F32 = np.float32
SHAPE = (200, 100)
# Of 20000 numbers the mean is off by 1/141 of the deviation; this is some 6 times that.
BOUND = 0.043


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("like", [False, True])
@pytest.mark.parametrize(
    ("op_type", "attributes", "mean", "deviation"),
    [
        ("RandomNormal", {}, 0, 1),
        ("RandomNormal", {"mean": 4.0, "scale": 0.5}, 4, 0.5),
        ("RandomUniform", {}, 0.5, 12**-0.5),
        ("RandomUniform", {"low": -1.0, "high": 5.0}, 2, 6 * 12**-0.5),
    ],
)
def test_numbers(model, read, evaluate, op_type, attributes, mean, deviation, like, opset) -> None:
    if like:
        node = helper.make_node(f"{op_type}Like", ["x"], ["y"], **attributes)
    else:
        node = helper.make_node(op_type, [], ["y"], shape=SHAPE, **attributes)
    feeds = {"x": np.zeros(SHAPE, F32)} if like else {}
    graph = read(model([node], feeds, ["y"], opset=opset))
    assert [n.op_type for n in graph.nodes] == [f"{op_type}Like"]
    first, second = (evaluate(graph, feeds)["y"] for _ in range(2))
    assert (first.dtype, first.shape) == (F32, SHAPE)
    assert not np.array_equal(first, second)
    assert abs(first.mean() - mean) < BOUND * deviation
    assert abs(first.std() - deviation) < BOUND * deviation


def test_a_known_tensor_to_be_like_makes_no_known_numbers(model, read, evaluate) -> None:
    node = helper.make_node("RandomNormalLike", ["c"], ["y"])
    graph = read(model([node], {}, ["y"], {"c": np.zeros((4, 5), F32)}))
    assert not np.array_equal(evaluate(graph, {})["y"], evaluate(graph, {})["y"])


@pytest.mark.parametrize("shape", [(), (3, 0)])
def test_few_numbers(model, read, evaluate, shape) -> None:
    node = helper.make_node("RandomUniformLike", ["x"], ["y"])
    feeds = {"x": np.zeros(shape, F32)}
    assert evaluate(read(model([node], feeds, ["y"])), feeds)["y"].shape == shape


def test_types(model, read, evaluate) -> None:
    feeds = {"x": np.zeros((4, 5), np.int64)}
    for code, dtype in ((TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16)):
        node = helper.make_node("RandomNormalLike", ["x"], ["y"], dtype=code)
        assert evaluate(read(model([node], feeds, ["y"])), feeds)["y"].dtype == dtype


def test_a_seed_is_refused(model, read) -> None:
    node = helper.make_node("RandomNormal", [], ["y"], shape=[3], seed=1.0)
    with pytest.raises(
        UnsupportedOpError,
        match="unsupported attribute seed, which fixes the numbers: those that an op",
    ):
        read(model([node], {}, ["y"]))
