"""Small files that would take much time or memory: what a few numbers, or nodes, become."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail_onnx import _reader, _schema_functions
from dovetail_opset.importing import budget

F32 = np.float32
N = helper.make_node
FLOATS, INTS = TensorProto.FLOAT, TensorProto.INT64


def looped(model, nodes, turns, *, constants=(), known=None):
    """Create a model of a Loop whose body gives 'c' of 'b', (3,)."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [*nodes, N("Identity", ["going"], ["again"])],
        "body",
        [info("i", INTS, []), info("going", TensorProto.BOOL, []), info("b", FLOATS, [3])],
        [info("again", TensorProto.BOOL, None), info("c", FLOATS, None)],
        list(constants),
    )
    feeds = {"x": np.ones(3, F32)}
    loop = N("Loop", ["n", "", "x"], ["y"], body=body)
    return model([loop], feeds, ["y"], {"n": np.array(turns), **(known or {})})


def test_a_branch_that_no_turn_takes_is_copied_all_the_same(model, read, monkeypatch) -> None:
    info = helper.make_tensor_value_info
    large = helper.make_graph(
        [N("Neg", ["b"], [f"t{i}"]) for i in range(40)], "large", [], [info("t0", FLOATS, None)]
    )
    small = helper.make_graph([N("Neg", ["b"], ["e"])], "small", [], [info("e", FLOATS, None)])
    choice = N("If", ["no"], ["c"], then_branch=large, else_branch=small)
    known = {"no": np.array(False)}
    monkeypatch.setattr(_reader, "MAX_COPIED_NODES", 300)
    ops = [node.op_type for node in read(looped(model, [choice], 5, known=known)).nodes]
    assert ops.count("ElementWiseNeg") == 5
    with pytest.raises(UnsupportedOpError, match="loops have more than 300 nodes"):
        read(looped(model, [choice], 50, known=known))


@pytest.mark.parametrize("in_node", [False, True])
def test_constants_of_a_body_are_there_for_each_turn(model, read, monkeypatch, in_node) -> None:
    values = numpy_helper.from_array(np.ones((1000, 3), F32), "k")
    nodes = [N("Mul", ["b", "k"], ["p"]), N("ReduceMax", ["p"], ["c"], axes=[0], keepdims=0)]
    if in_node:
        nodes.insert(0, N("Constant", [], ["k"], value=values))
    constants = [] if in_node else [values]
    monkeypatch.setattr(budget, "_FREE_BYTES", 500_000)
    assert read(looped(model, nodes, 5, constants=constants)).nodes
    with pytest.raises(FrontendError, match="more constants than the size of the model explains"):
        read(looped(model, nodes, 50, constants=constants))


def rnns(model, count):
    """Create a model of RNNs that share their weights: some 200 ops each."""
    nodes = [N("RNN", ["x", "w", "r"], ["", f"y{i}"], hidden_size=8) for i in range(count)]
    weights = {"w": np.ones((1, 8, 4), F32), "r": np.ones((1, 8, 8), F32)}
    return model(nodes, {"x": np.ones((40, 1, 4), F32)}, [f"y{i}" for i in range(count)], weights)


def test_ops_are_counted(model, read, monkeypatch) -> None:
    monkeypatch.setattr(budget, "_FREE_OPS", 500)
    assert len(read(rnns(model, 2)).nodes) > 400
    with pytest.raises(UnsupportedOpError, match="the model becomes more than 600 ops") as caught:
        read(rnns(model, 5))
    (problem,) = caught.value.problems
    assert "3 nodes" in problem.where


def test_constants_made_of_shared_weights_are_counted(model, read, monkeypatch) -> None:
    monkeypatch.setattr(budget, "_FREE_BYTES", 1000)
    monkeypatch.setattr(budget, "_GROWTH", 2)
    assert read(rnns(model, 2)).nodes
    with pytest.raises(FrontendError, match="too large together with those of other nodes"):
        read(rnns(model, 9))


def test_definitions_are_counted(model, read, monkeypatch) -> None:
    x = np.ones((1, 1, 4, 4), F32)
    nodes = [N("Attention", ["x", "x", "x"], [f"y{i}"]) for i in range(4)]
    made = model(nodes, {"x": x}, [f"y{i}" for i in range(4)], opset=23)
    assert read(made).nodes
    monkeypatch.setattr(_schema_functions, "_FREE_NODES", 20)
    with pytest.raises(FrontendError, match="have more than 60 nodes together"):
        read(made)


@pytest.mark.parametrize("count", [2**30, 2**40])
def test_a_wrapped_pad_of_any_size(model, read, count) -> None:
    node = N("Pad", ["x", "pads"], ["y"], mode="wrap")
    with pytest.raises(FrontendError, match="too large"):
        read(model([node], {"x": np.ones(4, F32)}, ["y"], {"pads": np.array([0, count])}, opset=19))


def test_a_shift_that_is_spread_over_very_many_channels(model, read) -> None:
    node = N("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)
    made = model([node], {"x": (FLOATS, [1, 2**28, 1])}, ["y"], {"s": np.ones(2, F32)}, opset=18)
    with pytest.raises(FrontendError, match="too large"):
        read(made)


def test_a_constant_that_is_cut_by_padding(check) -> None:
    """ONNX's own evaluator, which computes constants, does not take numbers below 0."""
    x = np.arange(12, dtype=F32).reshape(3, 4)
    check("Pad", [], known=[x, np.array([-1, 0, 1, -2])], opset=13)


@pytest.mark.parametrize("known", [False, True])
def test_a_block_is_no_longer_than_its_axis(model, read, run, rng, known) -> None:
    stored, scale = rng.integers(-9, 9, (2, 5)).astype(np.int8), np.array([[0.5], [2]], F32)
    node = N("DequantizeLinear", ["w", "s"], ["r"], axis=1, block_size=1 << 40)
    x = rng.normal(size=(2, 5)).astype(F32)
    feeds = {"x": x} if known else {"x": x, "w": stored}
    constants = {"s": scale} | ({"w": stored} if known else {})
    made = model([node, N("Add", ["r", "x"], ["y"])], feeds, ["y"], constants, opset=21)
    np.testing.assert_allclose(run(read(made), feeds)["y"], stored * scale + x, rtol=1e-6)


@pytest.mark.parametrize("dims", [(8, 8), (60_000, 60_000)])
def test_ends_of_ranges_make_no_more_than_their_input(model, read, dims) -> None:
    """60,000 numbers and 60,000 others are 14 GB of pairs."""
    low, high = -np.ones((dims[0], 1), F32), np.full((1, dims[1]), 127 / 128, F32)
    ends = ["low", "high", "low", "high"]
    node = N("FakeQuantize", ["x", *ends], ["y"], domain="org.openvinotoolkit")
    domains = {"": 17, "org.openvinotoolkit": 1}
    opsets = [helper.make_opsetid(name, version) for name, version in domains.items()]
    constants = {"low": low, "high": high}
    made = model([node], {"x": (FLOATS, dims)}, ["y"], constants, opset_imports=opsets)
    if dims[0] == 8:
        assert read(made).nodes
        return
    with pytest.raises(FrontendError, match="too large"):
        read(made)


def test_scales_make_no_more_than_known_numbers(model, read) -> None:
    domains = {"": 17, "qonnx.custom_op.general": 1}
    opsets = [helper.make_opsetid(name, version) for name, version in domains.items()]
    node = N("Quant", ["w", "s", "z", "b"], ["q"], domain="qonnx.custom_op.general")
    constants = {
        "w": np.ones(100_000, F32),
        "s": np.ones((100_000, 1), F32),
        "z": np.zeros((), F32),
        "b": np.array(8, F32),
    }
    nodes = [node, N("Add", ["q", "x"], ["y"])]
    made = model(nodes, {"x": np.ones(1, F32)}, ["y"], constants, opset_imports=opsets)
    with pytest.raises(FrontendError, match="does not match the input"):
        read(made)


def test_an_axis_is_not_gone_through_beside_one_without_elements(model, read) -> None:
    known = {"x": np.zeros((1, 1, 2, 4), F32), "sizes": np.array([1, 1, 2**32, 0])}
    resized = N("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")
    # a MemoryError is what ONNX's evaluator would raise
    with pytest.raises((FrontendError, UnsupportedOpError)):
        read(model([resized], {}, ["y"], known))


def test_an_operator_of_a_version_that_has_none_is_not_computed(model, read) -> None:
    made = model([N("ConstantOfShape", ["n"], ["y"])], {}, ["y"], {"n": np.array([2**40])}, opset=8)
    with pytest.raises((FrontendError, UnsupportedOpError)):
        read(made)
