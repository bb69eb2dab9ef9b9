"""Dropouts fused with adjacent operators; at inference they drop nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Result
from dovetail_onnx.operators._parts import apply_operator
from dovetail_onnx.operators.constant import check_dropout, full_mask
from dovetail_onnx.operators.microsoft._table import MICROSOFT

_RESIDUAL, _RATIO, _TRAINING = 2, 3, 4


@MICROSOFT.importer("BiasDropout", versions=(1,))
def bias_dropout(op: OpContext) -> Sequence[Result]:
    """Compute x + bias, plus the residual where there is one; the mask is true everywhere."""
    check_dropout(op, _RATIO, _TRAINING)
    inputs = [op.value(i) for i in (1, _RESIDUAL) if op.has(i)]
    y = op.value(0)
    for i, value in enumerate(inputs, 1):
        output = 0 if i == len(inputs) else None
        y = apply_operator(op, "biased", "Add", [y, value], output=output)
    return [y, *full_mask(op)]
