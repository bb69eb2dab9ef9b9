"""Softmax, its logarithm, and its hard form."""

from __future__ import annotations

import math

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.layout import reshaped


def _along(op_type: str) -> Importer:
    """Return the importer of an op along an axis; before version 13, along all from that on."""

    def convert(op: OpContext) -> Tensor:
        x, axis, shape = _input(op)
        if x.shape == shape:
            return op.emit(op_type, [x], axis=axis)
        y = op.step("matrix", op_type, [x], axis=axis)
        return op.emit("Reshape", [y], spec=Spec(y.dtype, shape))

    return convert


ONNX.importer("Softmax", versions=(1, 11, 13))(_along("Softmax"))
ONNX.importer("LogSoftmax", versions=(1, 11, 13))(_along("LogSoftmax"))


@ONNX.importer("Hardmax", versions=(1, 11, 13))
def hardmax(op: OpContext) -> Tensor:
    """OneHot of Argmax: 1 at the first maximum, 0 elsewhere."""
    x, axis, shape = _input(op)
    left = (*x.shape[:axis], *x.shape[axis + 1 :])
    place = op.step("place", "Argmax", [x], axis=axis, spec=Spec(DType.INT_32, left))
    target, depth = Spec(x.dtype, x.shape), x.shape[axis]
    if x.shape == shape:
        return op.emit("OneHot", [place], spec=target, axis=axis, depth=depth)
    y = op.step("matrix", "OneHot", [place], spec=target, axis=axis, depth=depth)
    return op.emit("Reshape", [y], spec=Spec(y.dtype, shape))


def _input(op: OpContext) -> tuple[Tensor, int, tuple[int, ...]]:
    """Return the tensor to normalize, the axis, and the shape of the node's output."""
    x = op.tensor(0)
    old = op.version < 13
    axis = op.axis(op.attr.integer("axis", 1 if old else -1), max(len(x.shape), 1))
    if not x.shape:
        return reshaped(op, "vector", x, (1,)), 0, ()
    if old and math.prod(x.shape[axis + 1 :]) != 1:
        rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
        return reshaped(op, "rows", x, (rows, columns)), 1, x.shape
    return x, axis, x.shape
