"""Quantization, and matrix products of tensors stored as integers."""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._between import (
    are_columns,
    are_known,
    are_single,
    real_bias,
    real_input,
)
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import apply_operator, given, value
from dovetail_onnx.operators.dynamic_quantization import byte_coding
from dovetail_onnx.operators.microsoft._stored import (
    emit_quantized,
    integer_product,
    need_one,
)
from dovetail_onnx.operators.microsoft._table import MICROSOFT


@MICROSOFT.importer("DequantizeLinear", versions=(1,))
def dequantize_linear(op: OpContext) -> Value:
    """Subtract the zero point and multiply by the scale, as ONNX's operator does."""
    inputs = [value(op, i) for i in range(3)]
    return apply_operator(op, "real", "DequantizeLinear", inputs, output=0, **given(op, ["axis"]))


@MICROSOFT.importer("QuantizeLinear", versions=(1,))
def quantize_linear(op: OpContext) -> Value:
    """Divide by the scale, round, and add the zero point, as ONNX's operator does."""
    inputs = [value(op, i) for i in range(3)]
    return apply_operator(op, "stored", "QuantizeLinear", inputs, output=0, **given(op, ["axis"]))


@MICROSOFT.importer("MatMulIntegerToFloat", versions=(1,))
def matmul_integer_to_float(op: OpContext) -> Value:
    """Emit an exact product of integers, times both scales, plus a bias."""
    need_one(op, 2, "a_scale")
    need_one(op, 4, "a_zero_point")
    if are_known(op, 1) and are_columns(op, 1, 3, 5):
        return _emit_product(op, real_input(op, 0, 2, 4), real_input(op, 1, 3, 5, -1), bias=6)
    sums = integer_product(op, op.value(0), op.value(1), (4, 5))
    return _emit_scaled(op, sums, Expr(op, op.value(2)), 3, bias=6)


@MICROSOFT.importer("DynamicQuantizeMatMul", versions=(1,))
def dynamic_quantize_matmul(op: OpContext) -> Value:
    """Emit the same for a real matrix, quantized to bytes between its minimum and maximum."""
    x = op.value(0)
    scale, point = byte_coding(op, x)
    stored = apply_operator(op, "stored", "QuantizeLinear", [x, scale, point])
    if are_known(op, 1) and are_columns(op, 1, 2, 3):
        real_x = apply_operator(op, "real0", "DequantizeLinear", [stored, scale, point])
        return _emit_product(op, real_x, real_input(op, 1, 2, 3, -1), bias=4)
    sums = apply_operator(
        op, "integers", "MatMulInteger", [stored, op.value(1), point, value(op, 3)]
    )
    real = Expr(op, sums).cast(DType.FLOAT_32)
    return _emit_scaled(op, real.value, Expr(op, scale), 2, bias=4)


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
    scale, alpha = Expr(op, op.value(1)), op.attr.number("alpha", 1.0)
    if alpha != 1:
        scale *= alpha
    if not op.has(8):  # ONNX Runtime then returns real numbers, although divided by a scale
        if op.has(7):
            scale /= op.value(7)
        return _emit_scaled(op, sums, scale, 4)
    real = Expr(op, sums) * (scale * op.value(4))
    return emit_quantized(op, real.value, scale=7, zero=8, like=DType.UINT_8)


def _is_plain(op: OpContext) -> bool:
    """Return whether the product can be of real matrices: all scales known, quantized again."""
    one = op.attr.number("alpha", 1.0) == 1 and op.has(8)
    # the bias is dequantized by the scales of the columns, which must be given then
    scales = op.spec(4).shape
    fits = scales in ((), (1,)) or not op.has(6) or op.spec(6).shape[-1:] == scales
    return one and fits and are_single(op, 1, 2, 7, 8) and are_known(op, 3, 4, 5, 6)


def _between(op: OpContext) -> Value:
    turns = given(op, ["transA", "transB"])
    inputs = [
        real_input(op, 0, 1, 2),
        real_input(op, 3, 4, 5, 0 if turns.get("transB") else 1),
        real_bias(op, 6, 1, 4),
    ]
    real = apply_operator(op, "product", "Gemm", inputs, **turns)
    return emit_quantized(op, real, scale=7, zero=8, like=DType.UINT_8)


def _emit_product(op: OpContext, a: Value, b: Value, *, bias: int) -> Value:
    """Emit the product of real matrices, plus the bias of an input."""
    return _biased(op, Expr(op, a) @ b, bias).emit()


def _turned(op: OpContext, i: int, attribute: str) -> Value:
    if not op.attr.integer(attribute, 0):
        return op.value(i)
    return apply_operator(op, f"input{i}", "Transpose", [op.value(i)], perm=[1, 0])


def _emit_scaled(
    op: OpContext, sums: Value, scale: Expr, other: int, *, bias: int | None = None
) -> Value:
    """Emit sums times a scale and that of an input, plus the bias of another input."""
    return _biased(op, Expr(op, sums) * (scale * op.value(other)), bias).emit()


def _biased(op: OpContext, x: Expr, bias: int | None) -> Expr:
    return x if bias is None or not op.has(bias) else x + op.value(bias)
