"""Quantization, and matrix products of tensors stored as integers."""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._between import (
    are_columns,
    are_known,
    are_single,
    real_bias,
    real_input,
)
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import given, value
from dovetail_onnx.operators.dynamic_quantization import byte_coding
from dovetail_onnx.operators.microsoft._stored import (
    emit_quantized,
    integer_product,
    need_one,
)
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value


@MICROSOFT.importer("DequantizeLinear", versions=(1,))
def dequantize_linear(op: OpContext) -> Value:
    """Subtract the zero point and multiply by the scale, as ONNX's operator does."""
    return _same(op)


@MICROSOFT.importer("QuantizeLinear", versions=(1,))
def quantize_linear(op: OpContext) -> Value:
    """Divide by the scale, round, and add the zero point, as ONNX's operator does."""
    return _same(op)


def _same(op: OpContext) -> Value:
    inputs = value(op, 1), value(op, 2)
    return value_of(op, 0).apply(op.node.op_type, *inputs, **given(op, ["axis"])).emit()


@MICROSOFT.importer("MatMulIntegerToFloat", versions=(1,))
def matmul_integer_to_float(op: OpContext) -> Value:
    """Emit an exact product of integers, times both scales, plus a bias."""
    need_one(op, 2, "a_scale")
    need_one(op, 4, "a_zero_point")
    if are_known(op, 1) and are_columns(op, 1, 3, 5):
        return _biased(op, real_input(op, 0, 2, 4) @ real_input(op, 1, 3, 5, -1), 6).emit()
    sums = integer_product(op, value_of(op, 0), value_of(op, 1), (4, 5))
    return _biased(op, sums * (value_of(op, 2) * op.value(3)), 6).emit()


@MICROSOFT.importer("DynamicQuantizeMatMul", versions=(1,))
def dynamic_quantize_matmul(op: OpContext) -> Value:
    """Emit the same for a real matrix, quantized to bytes between its minimum and maximum."""
    x = op.value(0)
    scale, point = byte_coding(op, x)
    stored = Expr(op, x).apply("QuantizeLinear", scale, point)
    if are_known(op, 1) and are_columns(op, 1, 2, 3):
        real = stored.apply("DequantizeLinear", scale, point)
        return _biased(op, real @ real_input(op, 1, 2, 3, -1), 4).emit()
    sums = stored.apply("MatMulInteger", op.value(1), point, value(op, 3)).cast(DType.FLOAT_32)
    return _biased(op, sums * (Expr(op, scale) * op.value(2)), 4).emit()


@MICROSOFT.importer("QGemm", versions=(1,))
def quantized_gemm(op: OpContext) -> Value:
    """Emit an exact product of integers plus integers, times scales, quantized again or float."""
    need_one(op, 1, "a_scale")
    need_one(op, 2, "a_zero_point")
    if _is_plain(op):
        return _between(op)
    a = _turned(op, 0, "transA")
    b = _turned(op, 3, "transB")
    sums = integer_product(op, a, b, (2, 5), bias=6)
    scale, alpha = value_of(op, 1), op.attr.number("alpha", 1.0)
    if alpha != 1:
        scale *= alpha
    if not op.has(8):  # ONNX Runtime then returns real numbers, although divided by a scale
        if op.has(7):
            scale /= op.value(7)
        return (sums * (scale * op.value(4))).emit()
    return emit_quantized(op, sums * (scale * op.value(4)), scale=7, zero=8, like=DType.UINT_8)


def _is_plain(op: OpContext) -> bool:
    """Return whether the product can be of real matrices: all scales known, quantized again."""
    one = op.attr.number("alpha", 1.0) == 1 and op.has(8)
    # the bias is dequantized by the scales of the columns, which must be given then
    scales = op.spec(4).shape
    fits = scales in ((), (1,)) or not op.has(6) or op.spec(6).shape[-1:] == scales
    return one and fits and are_single(op, 1, 2, 7, 8) and are_known(op, 3, 4, 5, 6)


def _between(op: OpContext) -> Value:
    turns = given(op, ["transA", "transB"])
    b = real_input(op, 3, 4, 5, 0 if turns.get("transB") else 1)
    real = real_input(op, 0, 1, 2).apply("Gemm", b, real_bias(op, 6, 1, 4), **turns)
    return emit_quantized(op, real, scale=7, zero=8, like=DType.UINT_8)


def _turned(op: OpContext, i: int, attribute: str) -> Expr:
    x = value_of(op, i)
    return x.apply("Transpose", perm=[1, 0]) if op.attr.integer(attribute, 0) else x


def _biased(op: OpContext, x: Expr, bias: int) -> Expr:
    return x + op.value(bias) if op.has(bias) else x
