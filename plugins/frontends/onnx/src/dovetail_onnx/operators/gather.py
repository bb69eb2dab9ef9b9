"""Gathering by index."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("Gather", versions=(1, 11, 13))
def gather(op: OpContext) -> Tensor:
    """Gather with INT_32 indices."""
    data = op.tensor(0)
    axis = op.axis(op.attr.integer("axis", 0), len(data.shape))
    return op.emit("Gather", [data, _indices(op, data.shape[axis])], axis=axis)


def _indices(op: OpContext, extent: int) -> Tensor:
    known = op.constant(1)
    if known is None:
        indices = op.tensor(1)
        if indices.dtype is DType.INT_32:
            return indices
        return op.step("indices", "Cast", [indices], spec=Spec(DType.INT_32, indices.shape))
    wrong = known[(known < -extent) | (known >= extent)]
    if wrong.size:
        raise op.invalid(f"its index {wrong.flat[0]} is not one of {extent} elements")
    return op.static("indices", np.where(known < 0, known + extent, known), DType.INT_32)
