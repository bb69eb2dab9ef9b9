"""Bounds of magnitudes: conversions without a search for NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind
from dovetail_opset.build import add

F32, U8 = DType.FLOAT_32, DType.UFIXED_POINT_8
SHAPE = (1, 8, 8, 4)
WEIGHTS = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
OPS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "sum": lambda net, a, b: add(net.graph, "ElementWiseAdd", [a, b], name="f"),
    "product": lambda net, a, b: add(net.graph, "ElementWiseMultiply", [a, b], name="f"),
    "matrix": lambda net, a, b: add(net.graph, "MatMul", [a, b], name="f", transpose_in1=True),
    "weights": lambda net, a, b: add(net.graph, "MatMul", [a, constant(net, WEIGHTS)], name="f"),
    "joined": lambda net, a, b: add(net.graph, "Concat", [a, b], name="f", axis=3),
    "softmax": lambda net, a, b: add(net.graph, "Softmax", [a], name="f"),
    "chain": lambda net, a, b: add(
        net.graph, "Tanh", [add(net.graph, "ElementWiseSubtract", [a, b], name="d")], name="f"
    ),
}


def constant(net: Any, values: Any) -> Tensor:
    found: Tensor = net.graph.add_tensor(Tensor.static("w", values, F32))
    return found


def dequantized(net: Any, name: str, scale: float = 0.02) -> Tensor:
    stored = Tensor(name, U8, SHAPE, TensorKind.APP_WRITE, encoding=ScaleOffset(scale, -100))
    found: Tensor = net.converted(net.graph.add_tensor(stored), f"{name}.real")
    return found


def searches(net: Any, x: Tensor) -> int:
    """Return how many steps search for NaN if a tensor is quantized."""
    net.converted(x, "y", U8, ScaleOffset(0.03, -100)).kind = TensorKind.APP_READ
    binds = [type(step.bind).__name__ for step in net.prepare().steps]
    return sum(name in ("_WithoutNan", "_RowsWithNan", "MaximumWithNan") for name in binds)


@pytest.mark.parametrize("op", sorted(OPS))
def test_numbers_are_not_searched(new_network: Any, op: str) -> None:
    net = new_network()
    a, b = dequantized(net, "a"), dequantized(net, "b")
    assert searches(net, OPS[op](net, a, b)) == 0


@pytest.mark.parametrize("op", sorted(set(OPS) - {"softmax", "weights"}))
def test_floats_of_the_application_are_searched(new_network: Any, op: str) -> None:
    net = new_network()
    b = net.graph.add_tensor(Tensor("b", F32, SHAPE, TensorKind.APP_WRITE))
    assert searches(net, OPS[op](net, dequantized(net, "a"), b)) == 1


@pytest.mark.parametrize("op", ["ElementWiseDivide", "ElementWisePower"])
def test_ops_that_create_nan_are_searched(new_network: Any, op: str) -> None:
    net = new_network()
    a, b = dequantized(net, "a"), dequantized(net, "b")
    assert searches(net, add(net.graph, op, [a, b], name="f")) == 1


def test_far_levels_are_searched(new_network: Any) -> None:
    net = new_network()
    a, b = dequantized(net, "a", 1e36), dequantized(net, "b", 1e36)
    assert searches(net, add(net.graph, "MatMul", [a, b], name="f", transpose_in1=True)) == 1


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e30])
def test_wrong_constants_are_searched(new_network: Any, wrong: float) -> None:
    net = new_network()
    weights = constant(net, np.where(WEIGHTS < 1, WEIGHTS, np.float32(wrong)))
    assert searches(net, add(net.graph, "MatMul", [dequantized(net, "a"), weights], name="f")) == 1


def test_updateable_constants_are_searched(new_network: Any) -> None:
    net = new_network()
    weights = constant(net, WEIGHTS)
    weights.kind = TensorKind.UPDATEABLE_STATIC
    assert searches(net, add(net.graph, "MatMul", [dequantized(net, "a"), weights], name="f")) == 1


@pytest.mark.parametrize(("scale", "expected"), [(0.01, 0), (1e36, 1)])
@pytest.mark.parametrize("op", ["FullyConnected", "MatMul"])
def test_fixed_point_weights_of_a_float_node(
    new_network: Any, op: str, scale: float, expected: int
) -> None:
    net = new_network()
    stored = np.arange(16, dtype=np.int8).reshape(4, 4)
    encoding = ScaleOffset(scale, 0)
    tensor = Tensor.static("w", stored, DType.SFIXED_POINT_8, encoding=encoding)
    weights = net.graph.add_tensor(tensor)
    bias = net.graph.add_tensor(Tensor.static("b", np.ones(4, np.float32), F32))
    operands = [dequantized(net, "a"), weights, *([bias] if op == "FullyConnected" else [])]
    assert searches(net, add(net.graph, op, operands, name="f")) == expected


def test_maxima_of_numbers_are_not_searched(new_network: Any) -> None:
    for is_number in (True, False):
        net = new_network()
        x = net.graph.add_tensor(Tensor("x", F32, SHAPE, TensorKind.APP_WRITE))
        x = dequantized(net, "a") if is_number else x
        window = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}
        y = add(net.graph, "PoolMax2d", [x], name="f", **window)
        assert searches(net, y) == (0 if is_number else 2)


@pytest.mark.parametrize("op", ["PoolAvg2d", "PoolMax2d"])
@pytest.mark.parametrize(
    ("pad", "rounding_mode", "expected"), [(1, 0, 0), (3, 0, 1), (1, 1, 1)], ids=str
)
def test_windows_of_padding_alone_are_searched(
    new_network: Any, op: str, pad: int, rounding_mode: int, expected: int
) -> None:
    net = new_network()
    window: dict[str, Any] = {
        "filter_size": (2, 2),
        "stride": (1, 1),
        "pad_amount": ((pad, 0), (0, 0)),
        "rounding_mode": rounding_mode,
    }
    y = add(net.graph, op, [dequantized(net, "a")], name="f", **window)
    assert searches(net, y) == expected


def test_softmax_with_beta_is_searched_twice(new_network: Any) -> None:
    net = new_network()
    y = add(net.graph, "Softmax", [dequantized(net, "a")], name="f", beta=1e38)
    assert searches(net, y) == 2
