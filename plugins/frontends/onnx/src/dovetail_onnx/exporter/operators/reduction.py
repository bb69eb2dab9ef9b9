"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduction(e: NodeExport) -> None:
    """Write the operator of the same name, over the axes in the value's order."""
    rank = len(e.spec(0).shape)
    if not rank and e.node.op_type == "ReduceSumSquare":  # squared, whatever the params say
        e.put(e.add("Mul", [e.input(0), e.input(0)]))
        return
    order = e.layout_of(0)
    op, left = e.in_order(order)
    x = e.input(0, order)
    e.put(reduced(e, e.node.op_type, x, op.axes, keep=op.keep_dims), left)


@exports("Moments")
def moments(e: NodeExport) -> None:
    """ReduceMean of x, and of the squared distances from the mean."""
    order = e.layout_of(0)
    op, left = e.in_order(order)
    x = e.input(0, order)
    mean = reduced(e, "ReduceMean", x, op.axes)
    distance = e.add("Sub", [x, mean])
    squares = e.add("Mul", [distance, distance])
    keep = bool(op.keep_dims)
    e.put(mean if keep else reduced(e, "ReduceMean", x, op.axes, keep=False), left, 0)
    e.put(reduced(e, "ReduceMean", squares, op.axes, keep=keep), left, 1)


@exports("CumulativeSum")
def cumulative_sum(e: NodeExport) -> None:
    """CumSum."""
    order = e.layout(0)
    op, _ = e.in_order(order)
    inputs = [e.input(0, order), e.reshape(e.integers([op.axis]), ())]
    exclusive, reverse = int(op.exclusive), int(op.reverse)
    e.put(e.add("CumSum", inputs, exclusive=exclusive, reverse=reverse), order)


def reduced(e: NodeExport, op_type: str, x: str, axes: Sequence[int], *, keep: bool = True) -> str:
    """Return the reduction of a value over its axes."""
    # without axes ONNX reduces over all by default
    noop = None if axes else 1
    inputs = [x, e.integers(axes)]
    return e.add(op_type, inputs, keepdims=int(keep), noop_with_empty_axes=noop)
