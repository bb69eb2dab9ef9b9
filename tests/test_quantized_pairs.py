"""What stands between quantizing and making real, and goes with both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from quantized_models import (
    NUMBERS,
    check_against_peer,
    converted,
    kinds,
    node,
    only_graph,
    ops_of,
    pair,
    saved,
)

from dovetail.ir import DType, Scalar, ScaleOffset


def test_each_reader_may_have_its_own_dequantize(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "a"),
        node("DequantizeLinear", "q s z", "b"),
        node("Tanh", "a", "t"),
        *pair("t", "u"),
        node("Mul", "u b", "m"),
        *pair("m", "y"),
    ]
    path = saved(tmp_path / "net.onnx", nodes, (2, 3), NUMBERS)
    made = converted(path)
    assert ops_of(made) == ["Tanh", "ElementWiseMultiply"]
    assert [each.tensor for each in kinds(made)["encoding"]] == ["x", "t", "y"]
    check_against_peer(path, made, (2, 3), 0.05)


def test_integers_that_are_only_moved(tmp_path: Path) -> None:
    """MaxPool, Transpose, Split and Slice of bytes, as QLinear networks have them."""
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("MaxPool", "q", "p", kernel_shape=[2, 2]),
        helper.make_node("Split", ["p"], ["left", "right"], axis=1, num_outputs=2),
        node("DequantizeLinear", "left s z", "l"),
        node("Transpose", "right", "turned", perm=[0, 1, 3, 2]),
        node("DequantizeLinear", "turned s z", "r"),
        node("Add", "l r", "sum"),
        *pair("sum", "y"),
    ]
    path = saved(tmp_path / "net.onnx", nodes, (1, 4, 5, 5), NUMBERS)
    made = converted(path)
    tensors = only_graph(made.model).tensors.values()
    assert {t.dtype for t in tensors} == {DType.UFIXED_POINT_8}
    assert {"Cast", "ElementWiseRound"}.isdisjoint(ops_of(made))
    assert {t.encoding for t in tensors} == {ScaleOffset(float(np.float32(0.05)), -100)}
    check_against_peer(path, made, (1, 4, 5, 5), 0.05)


def test_an_output_that_is_moved(tmp_path: Path) -> None:
    nodes = [
        node("Sin", "x", "t"),
        node("QuantizeLinear", "t s z", "q"),
        node("Transpose", "q", "turned", perm=[1, 0]),
        node("DequantizeLinear", "turned s z", "y"),
    ]
    path = saved(tmp_path / "net.onnx", nodes, (2, 3), NUMBERS)
    ends = np.array([[[-5], [5]]], np.float32) * np.ones(3, np.float32)  # no input goes beyond
    made = converted(path, calibration=ends)
    assert ops_of(made) == ["ElementWiseSin", "Transpose"]
    assert [each.tensor for each in kinds(made)["fixed"]] == ["x"]
    # the input has steps of its own, which a sine does not make larger
    check_against_peer(path, made, (2, 3), 0.1)


def test_integers_that_are_clipped(tmp_path: Path) -> None:
    """Seven bits, as torch writes them: ONNX has no such type, so a Clip stands in between."""
    nodes = [
        node("QuantizeLinear", "x s zero", "q"),
        node("Clip", "q zero most", "c"),
        node("DequantizeLinear", "c s zero", "a"),
        node("Sqrt", "a", "r"),
        *pair("r", "y"),
    ]
    numbers = NUMBERS | {"zero": np.uint8(0), "most": np.uint8(127)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 9), numbers)
    made = converted(path)
    assert ops_of(made) == ["ElementWiseSquareRoot"]
    assert only_graph(made.model).tensor("x").encoding == ScaleOffset(float(np.float32(0.05)), 0, 7)
    check_against_peer(path, made, (2, 9), 0.05)


@pytest.mark.parametrize("factor", [1.0, 0.125])
def test_a_softmax_takes_no_scale_away(tmp_path: Path, factor: float) -> None:
    nodes = [
        *pair("x", "a"),
        node("Mul", "a factor", "b"),
        node("Softmax", "b", "p"),
        node("QuantizeLinear", "p sp zp", "q"),
        node("DequantizeLinear", "q sp zp", "y"),
    ]
    numbers = {"factor": np.float32(factor), "sp": np.float32(1 / 255), "zp": np.uint8(0)}
    path = saved(tmp_path / "net.onnx", nodes, (3, 8), NUMBERS | numbers)
    made = converted(path)
    (softmax,) = (each for each in only_graph(made.model).nodes if each.op_type == "Softmax")
    beta = softmax.params.get("beta")
    assert beta is None or (isinstance(beta, Scalar) and beta.value == pytest.approx(factor))
    assert set(ops_of(made)) == {"Softmax"}
    check_against_peer(path, made, (3, 8), 1 / 255)


def test_microsofts_own_pairs(tmp_path: Path) -> None:
    """16 bits, which ONNX had only later."""
    numbers = {"s": np.float32(0.0002), "z": np.uint16(30000)}
    nodes = [
        *pair("x", "a", domain="com.microsoft"),
        node("Tanh", "a", "t"),
        *pair("t", "y", domain="com.microsoft"),
    ]
    path = saved(tmp_path / "net.onnx", nodes, (2, 9), numbers, opset=17)
    made = converted(path)
    assert ops_of(made) == ["Tanh"]
    assert only_graph(made.model).tensor("y").dtype is DType.UFIXED_POINT_16
    check_against_peer(path, made, (2, 9), 0.0002)
