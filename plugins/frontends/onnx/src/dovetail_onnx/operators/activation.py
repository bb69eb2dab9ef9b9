"""Activations."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import DType, Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._formula import operand, sigmoid, tanh, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped

# Params are FLOAT_32, which holds what these types hold.
_NARROW = (DType.FLOAT_32, DType.FLOAT_16, DType.BFLOAT_16)
_HARD_SIGMOID, _SOFTPLUS = 2, 7  # of ElementWiseNeuron


def _same(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, [op.tensor(0)])


ONNX.importer("Relu", versions=(6, 13, 14))(_same("Relu"))
ONNX.importer("Sigmoid", versions=(6, 13))(_same("Sigmoid"))
ONNX.importer("Tanh", versions=(6, 13))(_same("Tanh"))
ONNX.importer("HardSwish", versions=(14, 22))(_same("HardSwish"))


@ONNX.importer("LeakyRelu", versions=(6, 16))
def leaky_relu(op: OpContext) -> Tensor:
    """Prelu with one slope; Relu for the slope 0."""
    x, alpha = op.tensor(0), op.attr.number("alpha", 0.01)
    if alpha == 0:
        return op.emit("Relu", [x])
    return _prelu(op, op.static("alpha", np.asarray([alpha]), x.dtype))


@ONNX.importer("PRelu", versions=(6, 7, 9, 16))
def prelu(op: OpContext) -> Tensor:
    """Prelu; before version 7 a slope of several elements is one for each channel."""
    x, slope = op.spec(0), op.spec(1)
    if op.version < 7 and slope.shape not in ((), (1,)):
        if slope.shape != x.shape[1:2]:
            raise op.invalid(f"slope {slope.shape} does not match the input {x.shape}")
        by_channel = (*slope.shape, *(1,) * (len(x.shape) - 2))
        return _prelu(op, reshaped(op, "slope", op.tensor(1), by_channel))
    if not broadcasts(slope.shape, x.shape):
        raise op.invalid(f"slope {slope.shape} does not broadcast to the input {x.shape}")
    if slope.shape:
        return _prelu(op, op.tensor(1))
    known = op.constant(1)
    if known is not None:
        return _prelu(op, op.static("slope", known.reshape(1), slope.dtype))
    return _prelu(op, reshaped(op, "slope", op.tensor(1), (1,)))


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Return whether a shape broadcasts to another one."""
    try:
        return bool(np.broadcast_shapes(to, shape) == to)
    except ValueError:
        return False


def _prelu(op: OpContext, slope: Tensor) -> Tensor:
    """Emit a Prelu, which takes no scalar."""
    x = op.tensor(0)
    if x.shape:
        return op.emit("Prelu", [x, slope])
    y = op.step("vector", "Prelu", [reshaped(op, "element", x, (1,)), slope])
    return op.emit("Reshape", [y], spec=x.spec)


@ONNX.importer("ThresholdedRelu", versions=(1, 10, 22))  # 1: experimental
def thresholded_relu(op: OpContext) -> Value:
    """Return x where it exceeds alpha, else 0: a comparison and a selection."""
    x = operand(op, 0)
    return where(x > op.attr.number("alpha", 1.0), x, 0).emit()


@ONNX.importer("Elu", versions=(6, 22))
def elu(op: OpContext) -> Tensor:
    """Elu."""
    return op.emit("Elu", [op.tensor(0)], alpha=op.attr.number("alpha", 1.0))


@ONNX.importer("Selu", versions=(6, 22))
def selu(op: OpContext) -> Value:
    """Elu, times gamma."""
    alpha = op.attr.number("alpha", 1.67326319217681884765625)
    gamma = op.attr.number("gamma", 1.05070102214813232421875)
    return (operand(op, 0).apply("Elu", alpha=alpha) * gamma).emit()


@ONNX.importer("Celu", versions=(12, 28))
def celu(op: OpContext) -> Value:
    """Compute alpha * Elu(x / alpha)."""
    x, alpha = operand(op, 0), op.attr.number("alpha", 1.0)
    if alpha <= 0:
        raise op.unsupported(f"unsupported alpha {alpha}; it must be above 0")
    if alpha == 1:
        return x.step("Elu").emit()
    scale = x.expr(alpha)
    return ((x / scale).step("Elu") * scale).emit()


@ONNX.importer("HardSigmoid", versions=(6, 22))
def hard_sigmoid(op: OpContext) -> Tensor:
    """ElementWiseNeuron's HARD_SIGMOID."""
    return op.emit(
        "ElementWiseNeuron",
        [op.tensor(0)],
        operation=_HARD_SIGMOID,
        alpha=op.attr.number("alpha", 0.2),
        beta=op.attr.number("beta", 0.5),
    )


@ONNX.importer("Softplus", versions=(1, 22))
def softplus(op: OpContext) -> Tensor:
    """ElementWiseNeuron's SOFTPLUS."""
    return op.emit("ElementWiseNeuron", [op.tensor(0)], operation=_SOFTPLUS)


@ONNX.importer("Mish", versions=(18, 22))
def mish(op: OpContext) -> Value:
    """Compute x * tanh(softplus(x))."""
    x = operand(op, 0)
    return (x * tanh(x.apply("Softplus"))).emit()


@ONNX.importer("Swish", versions=(24,))
def swish(op: OpContext) -> Value:
    """Compute x * sigmoid(alpha * x)."""
    x, alpha = operand(op, 0), op.attr.number("alpha", 1.0)
    return (x * sigmoid(x if alpha == 1 else x * alpha)).emit()


@ONNX.importer("Softsign", versions=(1, 22))
def softsign(op: OpContext) -> Value:
    """Compute x / (1 + |x|)."""
    x = operand(op, 0)
    return (x / (abs(x) + 1)).emit()


@ONNX.importer("Gelu", versions=(20,))
def gelu(op: OpContext) -> Value:
    """Gelu, or its tanh form in small ops: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    x = operand(op, 0)
    match op.attr.text("approximate", "none"):
        case "none":
            return x.step("Gelu").emit()
        case "tanh":
            inner = x * math.sqrt(2 / math.pi) * (x * x * 0.044715 + 1)
            return (x * 0.5 * (tanh(inner) + 1)).emit()
        case other:
            raise op.invalid(f"unsupported attribute approximate '{other}'; expected none or tanh")


@ONNX.importer("Clip", versions=(6, 11, 12, 13))
def clip(op: OpContext) -> Tensor:
    """ReluMinMax or Relu where the bounds are known numbers, else maximum and minimum."""
    x = op.tensor(0)
    least, most = (_number(op, i, name) for i, name in ((1, "min"), (2, "max")))
    least = least if x.dtype in _NARROW else None
    if least is not None and most is not None and least <= most:
        return op.emit("ReluMinMax", [x], min_value=least, max_value=most)
    low, high = (_bound(op, i, name) for i, name in ((1, "min"), (2, "max")))
    if least == 0 and high is None:
        return op.emit("Relu", [x])
    if high is None:
        if low is None:
            return x
        return op.emit("ElementWiseMaximum", [x, low])
    if low is not None:
        x = op.step("above", "ElementWiseMaximum", [x, low])
    return op.emit("ElementWiseMinimum", [x, high])


def _bound(op: OpContext, i: int, name: str) -> Tensor | None:
    if op.version >= 11:
        return op.optional(i)
    if name not in op.attr:
        return None
    return op.static(name, np.asarray(op.attr.number(name, 0.0)), op.spec(0).dtype)


def _number(op: OpContext, i: int, name: str) -> float | None:
    if op.version < 11:
        return op.attr.number(name, 0.0) if name in op.attr else None
    found = op.constant(i)
    if found is None or found.size != 1:
        return None
    return float(found.reshape(()))
