"""Activations."""

from __future__ import annotations

import math

from onnx import TensorProto

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators._elementwise import exporter, follow, one
from dovetail_opset.ops.activation import HardSigmoid

for _name, _operator in (
    ("Relu", "Relu"),
    ("Sigmoid", "Sigmoid"),
    ("Tanh", "Tanh"),
    ("Gelu", "Gelu"),
    ("HardSwish", "HardSwish"),
):
    exports(_name)(exporter(one(_operator)))


@exports("ReluMinMax")
def relu_min_max(e: NodeExport) -> None:
    """Clip."""
    follow(e, lambda e, x: clipped(e, x, e.op.min_value, e.op.max_value))


@exports("Relu1")
def relu1(e: NodeExport) -> None:
    """Clip to [-1, 1]."""
    follow(e, lambda e, x: clipped(e, x, -1, 1))


@exports("Relu6")
def relu6(e: NodeExport) -> None:
    """Clip to [0, 6]."""
    follow(e, lambda e, x: clipped(e, x, 0, 6))


@exports("Prelu")
def prelu(e: NodeExport) -> None:
    """PRelu, whose slopes broadcast to x as in the op."""
    order = e.layout(0)
    e.put(e.add("PRelu", [e.input(0, order), e.aligned(1, order)]), order)


@exports("Elu")
def elu(e: NodeExport) -> None:
    """Elu."""
    follow(e, one("Elu", alpha=float(e.op.alpha)))


@exports("ElementWiseSoftplus")
def softplus(e: NodeExport) -> None:
    """Softplus of beta * x, over beta; x itself beyond a threshold that is not negative."""
    follow(e, lambda e, x: _softplus(e, x, e.op.beta, e.op.threshold))


@exports("ElementWiseNeuron")
def neuron(e: NodeExport) -> None:
    """Write HardSigmoid, or Softplus with a beta of 0: other functions have single ops."""
    single = e.op.single
    if isinstance(single, HardSigmoid):
        follow(e, one("HardSigmoid", alpha=float(single.alpha), beta=float(single.beta)))
    else:
        follow(e, lambda e, x: _softplus(e, x, single.beta, single.threshold))


def clipped(e: NodeExport, x: str, low: float, high: float) -> str:
    """Return a value clipped to bounds; for integers, to the integers within them."""
    code = e.builder.types[x]
    if code not in FLOATS:
        least, greatest = e.out.dtype.stored_range()
        low, high = (min(max(v, least), greatest) for v in (low, high))
        low, high = math.ceil(low), math.floor(high)
    return e.add("Clip", [x, e.constant(low, x), e.constant(high, x)])


def _softplus(e: NodeExport, x: str, beta: float, threshold: float) -> str:
    factor = e.constant(beta, x)
    scaled = x if beta == 1 else e.add("Mul", [x, factor])
    result = e.add("Softplus", [scaled])
    if beta != 1:
        result = e.add("Div", [result, factor])
    if threshold < 0:
        return result
    beyond = e.add("Greater", [scaled, e.constant(threshold, x)], TensorProto.BOOL)
    return e.add("Where", [beyond, x, result], e.builder.types[x])
