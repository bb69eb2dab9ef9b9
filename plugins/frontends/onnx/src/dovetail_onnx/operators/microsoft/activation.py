"""Activations, with or without a bias."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._parts import apply_operator, summed
from dovetail_onnx.operators.microsoft._table import MICROSOFT


@MICROSOFT.importer("Gelu", versions=(1,))
def gelu(op: OpContext) -> Value:
    """Gelu."""
    return apply_operator(op, "gelu", "Gelu", [op.value(0)], output=0)


@MICROSOFT.importer("BiasGelu", versions=(1,))
def bias_gelu(op: OpContext) -> Value:
    """Gelu of a sum."""
    return apply_operator(op, "gelu", "Gelu", [summed(op, "sum", op.value(0), 1)], output=0)


@MICROSOFT.importer("FastGelu", versions=(1,))
def fast_gelu(op: OpContext) -> Value:
    """Compute the tanh form of Gelu, of a sum where there is a bias."""
    x = summed(op, "sum", op.value(0), 1)
    return apply_operator(op, "gelu", "Gelu", [x], output=0, approximate="tanh")


@MICROSOFT.importer("QuickGelu", versions=(1,))
def quick_gelu(op: OpContext) -> Value:
    """Compute x * sigmoid(alpha * x)."""
    alpha = op.attr.number("alpha", 1.702)
    return apply_operator(op, "swish", "Swish", [op.value(0)], output=0, alpha=alpha)
