"""Dropouts: in training mode with the ratio 0, and switched off by an option."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError
from dovetail_onnx import OnnxOptions

N = helper.make_node
F32 = np.float32
X = np.array([-1, 1], F32)
TRAINING = np.array(True)


def test_training_with_the_ratio_0_drops_nothing(agree, model) -> None:
    nodes = [N("Dropout", ["x", "r", "t"], ["d", "m"]), N("Relu", ["d"], ["y"])]
    known = {"r": np.array(0, F32), "t": TRAINING}
    graph = agree(model(nodes, {"x": X}, ["y", "m"], known, opset=13), {"x": X})
    assert graph.nodes[0].op_type == "Relu"


@pytest.mark.parametrize("known", [("r", "t"), ("t",), ("r",), ()])
def test_switched_off_it_drops_nothing(model, read, evaluate, known) -> None:
    """Whatever is known of ratio and mode, in the main graph, a function and a branch."""
    drop = N("Dropout", ["x", "r", "t"], ["d"])
    within = N("Dropout", ["d", "r", "t"], ["b"])
    branch = helper.make_graph([within], "b", [], [helper.make_tensor_value_info("b", 1, None)])
    inner = N("Dropout", ["a", "ar", "at"], ["c"])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "F", ["a", "ar", "at"], ["c"], [inner], opsets[:1])
    nodes = [
        drop,
        N("Constant", [], ["one"], value_int=1),
        N("Cast", ["one"], ["yes"], to=9),
        N("If", ["yes"], ["i"], then_branch=branch, else_branch=branch),
        N("F", ["i", "r", "t"], ["y"], domain="mine"),
    ]
    values = {"r": np.array(0.5, F32), "t": TRAINING}
    feeds = {"x": X} | {n: v for n, v in values.items() if n not in known}
    held = {n: values[n] for n in known}
    made = model(nodes, feeds, ["y"], held, opset_imports=opsets, functions=[function])
    with pytest.raises(UnsupportedOpError, match="training mode") as caught:
        read(made)
    assert any("--dropout off" in p.hint for p in caught.value.problems) is ("t" in known)
    found = evaluate(read(made, OnnxOptions(dropout="off")), feeds)
    np.testing.assert_array_equal(found["y"], X)


@pytest.mark.parametrize("residual", [False, True])
def test_a_dropout_with_a_bias(model, read, evaluate, residual) -> None:
    """ONNX Runtime has no kernel of it for the CPU; by definition x + bias + residual."""
    rng = np.random.default_rng(3)
    feeds = {n: rng.standard_normal((2, 3)).astype(F32) for n in ("x", "r") if n == "x" or residual}
    bias = rng.standard_normal(3).astype(F32)
    inputs = ["x", "b", "r" if residual else "", "ratio", "t"]
    known = {"b": bias, "ratio": np.array(0.5, F32), "t": TRAINING}
    node = N("BiasDropout", inputs, ["y", "m"], domain="com.microsoft")
    made = model([node], feeds, ["y", "m"], known)
    with pytest.raises(UnsupportedOpError, match="dropout in training mode"):
        read(made)
    found = evaluate(read(made, OnnxOptions(dropout="off")), feeds)
    wanted = feeds["x"] + bias
    np.testing.assert_array_equal(found["y"], wanted + feeds["r"] if residual else wanted)
    np.testing.assert_array_equal(found["m"], np.ones((2, 3), np.bool_))
    del node.input[4:]  # which is inference
    found = evaluate(read(model([node], feeds, ["y"], {"b": bias, "ratio": known["ratio"]})), feeds)
    np.testing.assert_array_equal(found["y"], wanted + feeds["r"] if residual else wanted)
