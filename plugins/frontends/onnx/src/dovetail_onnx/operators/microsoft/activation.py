"""Activations, with or without a bias."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
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


def _sum(op: OpContext) -> Expr:
    """Return the input plus the bias, if there is one."""
    x = value_of(op, 0)
    return (x + op.value(1)).named("sum") if op.has(1) else x


@MICROSOFT.importer("QuickGelu", versions=(1,))
def quick_gelu(op: OpContext) -> Value:
    """Compute x * sigmoid(alpha * x)."""
    alpha = op.attr.number("alpha", 1.702)
    return value_of(op, 0).apply("Swish", alpha=alpha).emit()
