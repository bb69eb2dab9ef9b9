"""Padding and slicing."""

from __future__ import annotations

import numpy as np

from dovetail.ir import ScaleOffset
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators.convolution import onnx_pads
from dovetail_opset.ops.slicing import PadScheme

_MODES = {
    PadScheme.CONSTANT: "constant",
    PadScheme.MIRROR_REFLECT: "reflect",
    PadScheme.EDGE: "edge",
}
# Far enough that a slice with a negative step ends before element 0.
_BEFORE_ALL = -(2**31)


@exports("Pad")
def pad(e: NodeExport) -> None:
    """Pad; a symmetric mirror, which ONNX lacks, is a Gather along each axis."""
    order = e.layout(0)
    x = e.input(0, order)
    op, _ = e.in_order(order)
    pairs = [(int(before), int(after)) for before, after in op.pad_amount]
    if e.op.scheme is PadScheme.MIRROR_SYMMETRIC:
        extents = [e.spec(0).shape[axis] for axis in order]
        for axis, (extent, pair) in enumerate(zip(extents, pairs, strict=True)):
            if any(pair):
                places = np.pad(np.arange(extent), pair, mode="symmetric")
                x = e.add("Gather", [x, e.integers(places)], axis=axis)
        e.put(x if order else e.add("Identity", [x]), order)
        return
    inputs = [x, e.integers(onnx_pads(pairs))]
    if e.op.scheme is PadScheme.CONSTANT:
        inputs.append(e.constant(_constant(e), x))
    e.put(e.add("Pad", inputs, mode=_MODES[e.op.scheme]), order)


@exports("StridedSlice")
def strided_slice(e: NodeExport) -> None:
    """Slice, and Reshape where dimensions are added or removed."""
    index = e.op.index()
    old = [entry for entry in index if entry is not None]
    is_plain = len(old) == len(index) and not any(isinstance(entry, int) for entry in old)
    order = e.layout_of(0) if is_plain else tuple(range(len(old)))
    rows = [_row(old[axis], e.spec(0).shape[axis]) for axis in order]
    axes = [axis for axis, row in enumerate(rows) if row is not None]
    used = [row for row in rows if row is not None]
    x = e.input(0, order)
    if axes:
        columns = [e.integers(column) for column in zip(*used, strict=True)]
        x = e.add("Slice", [x, *columns[:2], e.integers(axes), columns[2]])
    if is_plain:
        e.put(x, order)
    else:
        e.put(e.reshape(x, e.out.shape))


def _row(entry: slice | int, extent: int) -> tuple[int, int, int] | None:
    """Return start, end and step as ONNX counts them; None for all of the axis."""
    if isinstance(entry, int):
        return entry, entry + 1, 1
    start, stop, step = entry.indices(extent)
    if (start, step) == (0, 1) and stop >= extent:
        return None
    return start, _BEFORE_ALL if stop < 0 else stop, step


def _constant(e: NodeExport) -> float:
    """Return the real value of the padding."""
    value, encoding = e.op.pad_constant_value, e.spec(0).encoding
    if e.spec(0).dtype.is_fixed_point and not isinstance(value, float):
        if not isinstance(encoding, ScaleOffset):
            raise e.unsupported(
                "pad_constant_value is a stored integer, but in[0] has several scales"
            )
        return (int(value) + encoding.offset) * encoding.scale
    return float(value)
