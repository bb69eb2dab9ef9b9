"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._formula import Expr, clip, exp, log, operand, sqrt
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Constant, Value

_COMMON = (1, 11, 13, 18)
_GREATEST = float(np.finfo(np.float32).max)


def _reduce(op_type: str) -> Callable[[OpContext], Value]:
    def convert(op: OpContext) -> Value:
        axes, keep = _axes(op)
        if not axes:
            return op.value(0)
        return op.emit(op_type, [op.tensor(0)], axes=axes, keep_dims=keep)

    return convert


def _reduce_to_extreme(op_type: str, *, least: bool) -> Importer:
    """Return the importer of ReduceMax or ReduceMin; without elements, the type's limit."""
    reduce = _reduce(op_type)

    def convert(op: OpContext) -> Value:
        nothing = _of_nothing(op, least=least)
        return reduce(op) if nothing is None else nothing

    return convert


ONNX.importer("ReduceMean", versions=_COMMON)(_reduce("ReduceMean"))
ONNX.importer("ReduceProd", versions=_COMMON)(_reduce("ReduceProd"))
ONNX.importer("ReduceSum", versions=(1, 11, 13))(_reduce("ReduceSum"))
for _name, _least in (("ReduceMax", True), ("ReduceMin", False)):
    ONNX.importer(_name, versions=(1, 11, 12, 13, 18, 20))(_reduce_to_extreme(_name, least=_least))


@ONNX.importer("ReduceSumSquare", versions=_COMMON)
def reduce_sum_square(op: OpContext) -> Tensor:
    """ReduceSumSquare; over no axes it still squares."""
    axes, keep = _axes(op)
    return op.emit("ReduceSumSquare", [op.tensor(0)], axes=axes, keep_dims=keep)


@ONNX.importer("ReduceL1", versions=_COMMON)
def reduce_l1(op: OpContext) -> Value:
    """Compute the sum of absolute values."""
    axes, keep = _axes(op)
    return _summed(abs(operand(op, 0)), axes, keep=keep).emit()


@ONNX.importer("ReduceL2", versions=_COMMON)
def reduce_l2(op: OpContext) -> Value:
    """Compute the square root of the sum of squares."""
    axes, keep = _axes(op)
    return sqrt(_float_input(op).step("ReduceSumSquare", axes=axes, keep_dims=keep)).emit()


@ONNX.importer("ReduceLogSum", versions=(*_COMMON, 28))
def reduce_log_sum(op: OpContext) -> Value:
    """Compute the logarithm of the sum."""
    axes, keep = _axes(op)
    return log(_summed(_float_input(op), axes, keep=keep)).emit()


@ONNX.importer("ReduceLogSumExp", versions=(*_COMMON, 28))
def reduce_log_sum_exp(op: OpContext) -> Value:
    """Compute log(sum(exp(x - m))) + m, m the maximum, so that no power overflows."""
    axes, keep = _axes(op)
    x = _float_input(op)
    if not axes:
        return x.emit()
    if (nothing := _of_nothing(op, least=True)) is not None:
        return nothing
    greatest = x.step("ReduceMax", axes=axes, keep_dims=True)
    # any finite shift will do; an infinite one would give infinity less itself
    shift = clip(greatest, -_GREATEST, _GREATEST)
    total = _summed(exp(x - shift), axes, keep=keep)
    return (log(total) + shift.reshaped(total.shape)).emit()


@ONNX.importer("CumSum", versions=(11, 14))
def cumulative_sum(op: OpContext) -> Tensor:
    """CumulativeSum."""
    given = op.need_ints(1, "axis")
    if len(given) != 1:
        raise op.invalid(f"axis must be a single number, got {given}")
    return op.emit(
        "CumulativeSum",
        [op.tensor(0)],
        axis=op.axis(given[0], len(op.spec(0).shape)),
        exclusive=bool(op.attr.integer("exclusive", 0)),
        reverse=bool(op.attr.integer("reverse", 0)),
    )


def _axes(op: OpContext) -> tuple[list[int], bool]:
    """Return the axes to reduce over, possibly none, and whether they stay as 1."""
    rank = len(op.spec(0).shape)
    # the axes moved from the attribute to an input, at different versions
    given = op.need_ints(1, "axes") if op.has(1) else op.attr.integers("axes")
    keep = bool(op.attr.integer("keepdims", 1))
    if not given and op.attr.integer("noop_with_empty_axes", 0):
        return [], keep
    return sorted({op.axis(axis, rank) for axis in given or range(rank)}), keep


def _summed(x: Expr, axes: list[int], *, keep: bool) -> Expr:
    """Return the sums over some axes; over no axes, the value itself."""
    return x.step("ReduceSum", axes=axes, keep_dims=keep) if axes else x


def _float_input(op: OpContext) -> Expr:
    x = operand(op, 0)
    if not x.dtype.is_float:
        raise op.unsupported(
            f"unsupported root or logarithm of integers, {x.dtype.name}",
            hint="cast the input to a float type, and the result back",
        )
    return x


def _of_nothing(op: OpContext, *, least: bool) -> Constant | None:
    """Return the minimum or maximum of a type if the node reduces over no elements."""
    (axes, keep), x = _axes(op), op.spec(0)
    if all(x.shape[axis] for axis in axes):
        return None
    kept = (1 if i in axes else n for i, n in enumerate(x.shape))
    shape = tuple(n for i, n in enumerate(kept) if keep or i not in axes)
    op.reserve_constant(shape)
    if x.dtype.is_float:
        value: float = -np.inf if least else np.inf
        storage = np.dtype(np.float32) if x.dtype is DType.BFLOAT_16 else x.dtype.storage
    else:
        ends = (0, 1) if x.dtype is DType.BOOL_8 else x.dtype.stored_range()
        value, storage = ends[0 if least else 1], x.dtype.storage
    return Constant(np.full(shape, value, storage), x.dtype, op.node.outputs[0])
