"""Reductions and running sums."""

from __future__ import annotations

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter._values import Order

_OPERATORS = {
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceSumSquare": "ReduceSumSquare",
}


@exports(*_OPERATORS)
def reduction(e: NodeExport) -> None:
    """Write the operator of the same name, over the axes in the value's order."""
    rank = len(e.spec(0).shape)
    if not rank and e.node.op_type == "ReduceSumSquare":  # squared, whatever the params say
        e.put(e.add("Mul", [e.input(0), e.input(0)]))
        return
    order = e.layout_of(0)
    axes = [int(axis) for axis in e.op.axes]
    x = e.input(0, order)
    result = reduced(e, _OPERATORS[e.node.op_type], x, order, axes, keep=e.op.keep_dims)
    e.put(result, order_without(order, axes, keep=e.op.keep_dims))


@exports("Moments")
def moments(e: NodeExport) -> None:
    """ReduceMean of x, and of the squared distances from the mean."""
    order = e.layout_of(0)
    axes = [int(axis) for axis in e.op.axes]
    x = e.input(0, order)
    mean = reduced(e, "ReduceMean", x, order, axes, keep=True)
    distance = e.add("Sub", [x, mean])
    squares = e.add("Mul", [distance, distance])
    keep = bool(e.op.keep_dims)
    left = order_without(order, axes, keep=keep)
    e.put(mean if keep else reduced(e, "ReduceMean", x, order, axes, keep=False), left, 0)
    e.put(reduced(e, "ReduceMean", squares, order, axes, keep=keep), left, 1)


@exports("CumulativeSum")
def cumulative_sum(e: NodeExport) -> None:
    """CumSum."""
    order = e.layout(0)
    axis = e.integers([order.index(e.op.axis)])
    inputs = [e.input(0, order), e.reshape(axis, ())]
    exclusive, reverse = int(e.op.exclusive), int(e.op.reverse)
    e.put(e.add("CumSum", inputs, exclusive=exclusive, reverse=reverse), order)


def reduced(
    e: NodeExport, op_type: str, x: str, order: Order, axes: list[int], *, keep: bool
) -> str:
    """Return the reduction of a value, stored in an order of axes, over axes of the tensor."""
    places = e.integers(sorted(order.index(axis) for axis in axes))
    # without axes ONNX reduces over all by default
    noop = None if axes else 1
    return e.add(op_type, [x, places], keepdims=int(keep), noop_with_empty_axes=noop)


def order_without(order: Order, axes: list[int], *, keep: bool) -> Order:
    """Return the order of axes of a reduction's result."""
    if keep:
        return order
    left = [axis for axis in order if axis not in axes]
    ranks = sorted(left)
    return tuple(ranks.index(axis) for axis in left)
