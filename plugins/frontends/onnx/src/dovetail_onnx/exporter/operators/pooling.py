"""Pooling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dovetail.ir import ScaleOffset, Shape, Tensor
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators.convolution import onnx_pads
from dovetail_opset.ops.pooling import Rounding

_NOT_NEGATIVE = ("Relu", "Relu6", "Sigmoid", "Softmax", "ElementWiseAbs", "ElementWiseExp")
# Ops whose results are at least the minimum of their inputs and 0.
_KEEPING = ("Concat", "PoolAvg2d", "PoolMax2d", "Reshape", "Split", "StridedSlice", "Transpose")
_MOST_STEPS = 64


@exports("PoolMax2d", "PoolMax3d")
def pool_max(e: NodeExport) -> None:
    """MaxPool. It ignores padding, so padding with 0 needs a Pad unless 0 is never the maximum."""
    x = e.channels_first()
    window = e.op.window
    pads = window.pads
    is_wide = any(max(pair) >= size for pair, size in zip(pads, window.size, strict=True))
    if any(map(any, pads)) and (is_wide or not _is_never_negative(e)):
        amounts = onnx_pads([(0, 0), (0, 0), *pads])
        x = e.add("Pad", [x, e.integers(amounts), e.constant(0, x)])
        pads = [(0, 0)] * len(pads)
    e.put_first(e.add("MaxPool", [x], **_attributes(e, pads)))


@exports("PoolAvg2d", "PoolAvg3d")
def pool_average(e: NodeExport) -> None:
    """AveragePool."""
    counted = int(e.op.count_pad_for_edges)
    attributes = _attributes(e, e.op.window.pads)
    result = e.add("AveragePool", [e.channels_first()], count_include_pad=counted, **attributes)
    e.put_first(result)


@exports("L2Pool2d")
def pool_l2(e: NodeExport) -> None:
    """Write the root of the sum of squares: of their mean, times their number."""
    x = e.channels_first()
    squares = e.add("Mul", [x, x])
    attributes = _attributes(e, e.op.window.pads)
    mean = e.add("AveragePool", [squares], count_include_pad=1, **attributes)
    count = e.constant(np.prod(e.op.window.size), x)
    e.put_first(e.add("Sqrt", [e.add("Mul", [mean, count])]))


def _attributes(e: NodeExport, pads: Iterable[Shape]) -> dict[str, Any]:
    """Return the attributes; elements of a last window beyond the padding are padding in ONNX."""
    window = e.op.window
    pairs = [tuple(pair) for pair in pads]
    if getattr(e.op, "rounding_mode", Rounding.FLOOR) is Rounding.CEIL:
        extents = zip(e.spec(0).shape[1:-1], window.pads, e.out.shape[1:-1], strict=True)
        for axis, (extent, (before, after), count) in enumerate(extents):
            reach = (count - 1) * window.stride[axis] + window.size[axis]
            first, last = pairs[axis]
            pairs[axis] = first, last + max(reach - (before + extent + after), 0)
    for pair, size in zip(pairs, window.size, strict=True):
        if max(pair) >= size:
            raise e.unsupported(
                f"windows of {window.size} can be entirely in the padding {pairs}, which ONNX "
                "does not allow"
            )
    return {
        "kernel_shape": list(window.size),
        "strides": list(window.stride),
        "pads": onnx_pads(pairs),
    }


def _is_never_negative(e: NodeExport) -> bool:
    """Return whether the input is known to have no negative elements."""
    waiting, seen = [e.tensor(0)], 0
    while waiting and seen < _MOST_STEPS:
        tensor, seen = waiting.pop(), seen + 1
        if _holds_nothing_negative(tensor):
            continue
        producer = e.values.graph.producer(tensor)
        if producer is None or producer.op_type not in (*_NOT_NEGATIVE, *_KEEPING):
            return False
        if producer.op_type in _KEEPING:
            waiting += [t for t in producer.inputs if t is not None]
    return not waiting


def _holds_nothing_negative(tensor: Tensor) -> bool:
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        return tensor.dtype.stored_range(encoding.bitwidth)[0] + encoding.offset >= 0
    return tensor.dtype.is_int and not tensor.dtype.is_signed
