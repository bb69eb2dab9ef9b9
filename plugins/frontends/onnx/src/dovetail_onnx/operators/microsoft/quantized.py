"""Operators on tensors stored as integers: dequantized, computed and quantized again."""

from __future__ import annotations

from typing import Any

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._between import real_input
from dovetail_onnx.operators._formula import value_of
from dovetail_onnx.operators._parts import given, value
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES
from dovetail_onnx.operators.microsoft._stored import emit_quantized
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value
from dovetail_opset.perms import to_first, to_last

_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_MAX_POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
# Softmax takes one axis from here on.
_SOFTMAX_OF_ONE_AXIS = 13


def _of_two(op_type: str) -> Importer:
    """Return the importer of an operator of two stored inputs."""

    def convert(op: OpContext) -> Value:
        real = real_input(op, 0, 1, 2).apply(op_type, real_input(op, 3, 4, 5))
        return emit_quantized(op, real, scale=6, zero=7, like=op.spec(0).dtype)

    return convert


MICROSOFT.importer("QLinearAdd", versions=(1,))(_of_two("Add"))
MICROSOFT.importer("QLinearMul", versions=(1,))(_of_two("Mul"))


def _of_one(op: OpContext, op_type: str, *, version: int = 0, **attributes: Any) -> Value:
    """Convert an operator of one stored input, (n, ..., c) where its attribute says so."""
    rank = len(op.spec(0).shape)
    is_last = bool(op.attr.integer("channels_last", 0))
    x = real_input(op, 0, 1, 2)
    if is_last:
        x = x.apply("Transpose", perm=to_first(rank))
    real = x.apply(op_type, version=version, **attributes)
    if is_last:
        real = real.apply("Transpose", perm=to_last(rank))
    return emit_quantized(op, real, scale=3, zero=4, like=op.spec(0).dtype)


@MICROSOFT.importer("QLinearSigmoid", versions=(1,))
def sigmoid(op: OpContext) -> Value:
    """Sigmoid."""
    return _of_one(op, "Sigmoid")


@MICROSOFT.importer("QLinearLeakyRelu", versions=(1,))
def leaky_relu(op: OpContext) -> Value:
    """Prelu with one slope."""
    return _of_one(op, "LeakyRelu", alpha=op.attr.number("alpha", 0.01))


@MICROSOFT.importer("QLinearSoftmax", versions=(1,))
def softmax(op: OpContext) -> Value:
    """Softmax, over an axis or, as ONNX had it before opset 13, over all from there on."""
    is_old = op.attr.integer("opset", _SOFTMAX_OF_ONE_AXIS) < _SOFTMAX_OF_ONE_AXIS
    axis = op.attr.integer("axis", -1)
    return _of_one(op, "Softmax", version=11 if is_old else 0, axis=axis)


@MICROSOFT.importer("QLinearGlobalAveragePool", versions=(1,))
def global_average_pool(op: OpContext) -> Value:
    """PoolAvg2d with a window over everything."""
    return _of_one(op, "GlobalAveragePool")


@MICROSOFT.importer("QLinearAveragePool", versions=(1,))
def average_pool(op: OpContext) -> Value:
    """PoolAvg2d or 3d."""
    return _of_one(op, "AveragePool", **given(op, _POOL))


@MICROSOFT.importer("NhwcMaxPool", versions=(1,))
def max_pool(op: OpContext) -> Value:
    """PoolMax2d or 3d of (n, ..., c); the scale is that of the input."""
    rank = len(op.spec(0).shape)
    first = value_of(op, 0).apply("Transpose", perm=to_first(rank))
    y = first.apply("MaxPool", **given(op, _MAX_POOL))
    return y.apply("Transpose", perm=to_last(rank)).emit()


@MICROSOFT.importer("QLinearWhere", versions=(1,))
def where(op: OpContext) -> Value:
    """ElementWiseSelect."""
    real = value_of(op, 0).apply("Where", real_input(op, 1, 2, 3), real_input(op, 4, 5, 6))
    return emit_quantized(op, real, scale=7, zero=8, like=op.spec(1).dtype)


@MICROSOFT.importer("QLinearConcat", versions=(1,))
def concat(op: OpContext) -> Value:
    """Concat of triples (tensor, scale, zero point), after the output's scale and zero point."""
    if op.count < 5 or op.count % 3 != 2:
        raise op.invalid(f"expected 2 inputs and then 3 for each tensor, got {op.count}")
    first, *rest = (real_input(op, i, i + 1, i + 2) for i in range(2, op.count, 3))
    real = first.apply("Concat", *rest, axis=op.attr.integer("axis", 0))
    return emit_quantized(op, real, scale=0, zero=1, like=op.spec(2).dtype)


@MICROSOFT.importer("QLinearConv", versions=(1,))
def conv(op: OpContext) -> Value:
    """As ONNX's own, (n, ..., c) where its attribute says so."""
    attributes, rank = given(op, CONV_ATTRIBUTES), len(op.spec(0).shape)
    x, rest = value_of(op, 0), [value(op, i) for i in range(1, op.count)]
    if not op.attr.integer("channels_last", 0):
        return x.apply("QLinearConv", *rest, **attributes).emit()
    y = x.apply("Transpose", perm=to_first(rank)).apply("QLinearConv", *rest, **attributes)
    return y.apply("Transpose", perm=to_last(rank)).emit()
