"""Softmax and its logarithm."""

from __future__ import annotations

import math

from dovetail.ir import Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import reshaped
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("Softmax", versions=(1, 11, 13))
def softmax(op: OpContext) -> Tensor:
    """Softmax along an axis; before version 13 over all dimensions from that axis on."""
    x, axis, shape = _input(op)
    if x.shape == shape:
        return op.emit("Softmax", [x], axis=axis)
    y = op.step("matrix", "Softmax", [x], axis=axis)
    return op.emit("Reshape", [y], spec=Spec(y.dtype, shape))


@ONNX.importer("LogSoftmax", versions=(1, 11, 13))
def log_softmax(op: OpContext) -> Tensor:
    """The difference y - log(sum(exp(y))) with y = x - max(x), which cannot overflow."""
    x, axis, shape = _input(op)
    greatest = op.step("max", "ReduceMax", [x], axes=[axis], keep_dims=True)
    y = op.step("shifted", "ElementWiseSubtract", [x, greatest])
    powers = op.step("exp", "ElementWiseExp", [y])
    total = op.step("sum", "ReduceSum", [powers], axes=[axis], keep_dims=True)
    inputs = [y, op.step("log", "ElementWiseLog", [total])]
    if x.shape == shape:
        return op.emit("ElementWiseSubtract", inputs)
    result = op.step("matrix", "ElementWiseSubtract", inputs)
    return op.emit("Reshape", [result], spec=Spec(result.dtype, shape))


def _input(op: OpContext) -> tuple[Tensor, int, tuple[int, ...]]:
    """Gives what to normalize, along which axis, and the shape of the node's output."""
    x = op.tensor(0)
    old = op.version < 13
    axis = op.axis(op.attr.integer("axis", 1 if old else -1), max(len(x.shape), 1))
    if not x.shape:
        return reshaped(op, "vector", x, (1,)), 0, ()
    if old and math.prod(x.shape[axis + 1 :]) != 1:
        rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
        return reshaped(op, "rows", x, (rows, columns)), 1, x.shape
    return x, axis, x.shape
