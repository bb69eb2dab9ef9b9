"""Dropouts fused with adjacent operators; at inference they drop nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import value_of
from dovetail_onnx.operators.constant import check_dropout, full_mask
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Result

_RESIDUAL, _RATIO, _TRAINING = 2, 3, 4


@MICROSOFT.importer("BiasDropout", versions=(1,))
def bias_dropout(op: OpContext) -> Sequence[Result]:
    """Compute x + bias, plus the residual where there is one; the mask is true everywhere."""
    check_dropout(op, _RATIO, _TRAINING)
    y = value_of(op, 0)
    for i in (1, _RESIDUAL):
        if op.has(i):
            y += op.value(i)
    return [y.emit(), *full_mask(op)]
