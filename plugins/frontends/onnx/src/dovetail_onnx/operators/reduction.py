"""Reductions."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer, Value
from dovetail_onnx.operators._table import ONNX


def _reduce(op_type: str) -> Importer:
    return lambda op: _reduced(op, op_type)


ONNX.importer("ReduceMax", versions=(1, 11, 12, 13, 18, 20))(_reduce("ReduceMax"))
ONNX.importer("ReduceMean", versions=(1, 11, 13, 18))(_reduce("ReduceMean"))
ONNX.importer("ReduceSum", versions=(1, 11, 13))(_reduce("ReduceSum"))


def _reduced(op: OpContext, op_type: str) -> Value:
    rank = len(op.spec(0).shape)
    # the axes moved from the attribute to an input, at different versions
    given = op.need_ints(1, "axes") if op.has(1) else op.attr.integers("axes")
    if not given and op.attr.integer("noop_with_empty_axes", 0):
        return op.value(0)
    axes = sorted({op.axis(axis, rank) for axis in given or range(rank)})
    keep = bool(op.attr.integer("keepdims", 1))
    if not axes:
        return op.value(0)
    return op.emit(op_type, [op.tensor(0)], axes=axes, keep_dims=keep)
