"""Activations, with or without a bias."""

from __future__ import annotations

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import constant
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value


@MICROSOFT.importer("Gelu", versions=(1,))
def gelu(op: OpContext) -> Value:
    """Gelu."""
    return value_of(op, 0).apply("Gelu").emit()


@MICROSOFT.importer("BiasGelu", versions=(1,))
def bias_gelu(op: OpContext) -> Value:
    """Gelu of a sum."""
    return _sum(op).apply("Gelu").emit()


@MICROSOFT.importer("FastGelu", versions=(1,))
def fast_gelu(op: OpContext) -> Value:
    """Compute the tanh form of Gelu, of a sum where there is a bias."""
    return _sum(op).apply("Gelu", approximate="tanh").emit()


@MICROSOFT.importer("BiasSplitGelu", versions=(1,))
def bias_split_gelu(op: OpContext) -> Value:
    """Compute the first half of a sum times Gelu of the second half."""
    total = _sum(op)
    size = total.shape[-1] if total.shape else 0
    if size == 0 or size % 2:
        raise op.invalid(f"input {total.shape} cannot be split into halves along its last axis")

    def half(start: int, end: int) -> Expr:
        bounds = ([start], [end], [-1])
        return total.apply("Slice", *(constant(op, "half", b, DType.INT_64) for b in bounds))

    return (half(0, size // 2) * half(size // 2, size).apply("Gelu")).emit()


@MICROSOFT.importer("BiasAdd", versions=(1,))
def bias_add(op: OpContext) -> Value:
    """Compute the sum of the input, a bias and a residual."""
    return (_sum(op) + op.value(2)).emit()


def _sum(op: OpContext) -> Expr:
    """Return the input plus the bias, if there is one."""
    x = value_of(op, 0)
    return (x + op.value(1)).named("sum") if op.has(1) else x


@MICROSOFT.importer("QuickGelu", versions=(1,))
def quick_gelu(op: OpContext) -> Value:
    """Compute x * sigmoid(alpha * x)."""
    alpha = op.attr.number("alpha", 1.702)
    return value_of(op, 0).apply("Swish", alpha=alpha).emit()
