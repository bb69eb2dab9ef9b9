"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail_onnx.exporter._node import FLOATS, NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter._values import Order
from dovetail_onnx.exporter.operators.reduction import reduced
from dovetail_opset.ops.local_response import LrnRegion
from dovetail_opset.ops.normalization import NormMode, NormRegion
from dovetail_opset.perms import inverse


@exports("Batchnorm")
def batchnorm(e: NodeExport) -> None:
    """BatchNormalization of mean 0 and variance 1, which are folded; Mul and Add elsewhere."""
    order, channels = e.layout(0), e.spec(0).shape[-1]
    x = e.input(0, order)
    if order != e.order_first() or not e.has(2) or e.builder.types[x] not in FLOATS:
        _scaled(e, x, order, [channels], (len(order) - 1,))
        return
    mean, variance = (e.constant(np.full(channels, v), x) for v in (0, 1))
    inputs = [x, e.input(1), e.input(2), mean, variance]
    e.put_first(e.add("BatchNormalization", inputs, epsilon=0.0))


@exports("LayerNorm")
def layer_norm(e: NodeExport) -> None:
    """Write LayerNormalization, with the axes moved to the end."""
    axes = [int(a) for a in e.op.axes]
    order = _axes_last(e, axes)
    x = e.input(0, order)
    extents = [e.spec(0).shape[a] for a in axes]
    gamma = e.input(1) if e.has(1) else e.constant(np.ones(extents), x)
    result = e.add(
        "LayerNormalization",
        [x, gamma, e.optional(2)],
        axis=len(order) - len(axes),
        epsilon=float(e.op.epsilon),
    )
    e.put(result, order)


@exports("RmsNorm")
def rms_norm(e: NodeExport) -> None:
    """X / sqrt(mean(x ** 2) + epsilon), in simple operators."""
    axes = [int(a) for a in e.op.axes]
    order = _axes_last(e, axes)
    x = e.input(0, order)
    last = range(len(order) - len(axes), len(order))
    mean = e.add("ReduceMean", [e.add("Mul", [x, x]), e.integers(last)], keepdims=1)
    shifted = e.add("Add", [mean, e.constant(e.op.epsilon, x)])
    result = e.add("Div", [x, e.add("Sqrt", [shifted])])
    if e.has(1):
        result = e.add("Mul", [result, e.input(1)])
    e.put(e.add("Add", [result, e.input(2)]) if e.has(2) else result, order)


@exports("InstanceNorm")
def instance_norm(e: NodeExport) -> None:
    """InstanceNormalization if statistics are per channel; otherwise simple operators."""
    op, rank = e.op, len(e.spec(0).shape)
    by_channel = op.region is NormRegion.ACROSS_SPATIAL and op.mode is NormMode.MU_SIGMA
    if by_channel and op.normalize_variance and rank > 2:
        x = e.channels_first()
        beta = e.input(2) if e.has(2) else e.constant(np.zeros(e.spec(0).shape[-1]), x)
        inputs = [x, e.input(1), beta]
        e.put_first(e.add("InstanceNormalization", inputs, epsilon=float(op.epsilon)))
        return
    order = e.layout(0)
    x = e.input(0, order)
    axes = [inverse(order)[axis] for axis in op.axes(rank)]
    epsilon = e.constant(op.epsilon, x)
    if op.mode is NormMode.RMS:
        total = reduced(e, "ReduceSumSquare", x, axes)
        result = e.add("Div", [x, e.add("Sqrt", [e.add("Add", [total, epsilon])])])
    else:
        result = e.add("Sub", [x, reduced(e, "ReduceMean", x, axes)])
        if op.normalize_variance:
            variance = reduced(e, "ReduceMean", e.add("Mul", [result, result]), axes)
            root = e.add("Sqrt", [e.add("Add", [variance, epsilon])])
            result = e.add("Div", [result, root])
    _scaled(e, result, order, [e.spec(0).shape[-1]], (rank - 1,))


@exports("GroupNorm")
def group_norm(e: NodeExport) -> None:
    """GroupNormalization."""
    x = e.channels_first()
    channels = e.spec(0).shape[-1]
    gamma = e.input(1) if e.has(1) else e.constant(np.ones(channels), x)
    beta = e.input(2) if e.has(2) else e.constant(np.zeros(channels), x)
    result = e.add(
        "GroupNormalization",
        [x, gamma, beta],
        num_groups=int(e.op.group),
        epsilon=float(e.op.epsilon),
    )
    e.put_first(result)


@exports("L2Norm")
def l2_norm(e: NodeExport) -> None:
    """X / max(ReduceL2(x), epsilon)."""
    order = e.layout(0)
    x = e.input(0, order)
    op, _ = e.in_order(order)
    norm = reduced(e, "ReduceL2", x, op.over())
    e.put(e.add("Div", [x, e.add("Max", [norm, e.constant(e.op.epsilon, x)])]), order)


@exports("Lrn")
def lrn(e: NodeExport) -> None:
    """LRN, whose alpha is divided by the number of neighbors; AveragePool within a channel."""
    op, size = e.op, 2 * e.op.radius + 1
    rank = len(e.spec(0).shape)
    if op.region is LrnRegion.ACROSS_CHANNEL:
        if rank < 3:
            raise e.unsupported(f"ONNX's LRN needs rank 3 or more, but in[0] has {rank}")
        result = e.add(
            "LRN",
            [e.channels_first()],
            alpha=float(op.alpha) * size,
            beta=float(op.beta),
            bias=float(op.bias),
            size=size,
        )
        e.put_first(result)
        return
    x = e.channels_first()
    window: dict[str, Any] = {
        "kernel_shape": [size] * (rank - 2),
        "pads": [op.radius] * 2 * (rank - 2),
    }
    mean = e.add("AveragePool", [e.add("Mul", [x, x])], count_include_pad=1, **window)
    total = e.add("Mul", [mean, e.constant(op.alpha * size ** (rank - 2), x)])
    base = e.add("Add", [total, e.constant(op.bias, x)])
    e.put_first(e.add("Div", [x, e.add("Pow", [base, e.constant(op.beta, x)])]))


def _axes_last(e: NodeExport, axes: list[int]) -> Order:
    rank = len(e.spec(0).shape)
    return (*(i for i in range(rank) if i not in axes), *axes)


def _scaled(e: NodeExport, x: str, order: Order, extents: list[int], axes: tuple[int, ...]) -> None:
    """Multiply by in[1] and add in[2], which have the sizes of axes of the output."""
    places = inverse(order)
    shape = [1] * len(order)
    for axis, extent in zip(axes, extents, strict=True):
        shape[places[axis]] = extent
    if e.has(1):
        x = e.add("Mul", [x, e.flat(1, tuple(shape))])
    if e.has(2):
        x = e.add("Add", [x, e.flat(2, tuple(shape))])
    e.put(x, order)
