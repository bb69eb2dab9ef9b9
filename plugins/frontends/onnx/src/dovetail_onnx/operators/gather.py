"""Gathering by index."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.indices import indices_tensor
from dovetail_opset.importing.layout import reshaped


@ONNX.importer("Gather", versions=(1, 11, 13))
def gather(op: OpContext) -> Tensor:
    """Gather with INT_32 indices."""
    data = op.tensor(0)
    axis = op.axis(op.attr.integer("axis", 0), len(data.shape))
    return op.emit("Gather", [data, indices_tensor(op, 1, data.shape[axis])], axis=axis)


@ONNX.importer("GatherElements", versions=(11, 13))
def gather_elements(op: OpContext) -> Tensor:
    """GatherElements with INT_32 indices."""
    data = op.tensor(0)
    axis = op.axis(op.attr.integer("axis", 0), len(data.shape))
    return op.emit("GatherElements", [data, indices_tensor(op, 1, data.shape[axis])], axis=axis)


@ONNX.importer("GatherND", versions=(11, 12, 13))
def gather_nd(op: OpContext) -> Tensor:
    """GatherNd with INT_32 indices."""
    data, batch = op.tensor(0), op.attr.integer("batch_dims", 0)
    rows = op.spec(1).shape
    if not rows or not 0 <= batch < min(len(data.shape), len(rows)):
        raise op.invalid(f"batch_dims {batch} do not match data {data.shape} and indices {rows}")
    extents = data.shape[batch : batch + rows[-1]]
    if len(extents) < rows[-1]:
        raise op.invalid(f"rows of {rows[-1]} indices are too long for {data.shape}")
    return op.emit("GatherNd", [data, indices_tensor(op, 1, extents)], batch_dims=batch)


@ONNX.importer("Compress", versions=(9, 11, 28))
def compress(op: OpContext) -> Value:
    """Gather of the elements that a known condition selects; without an axis, flattened."""
    shape = op.spec(0).shape
    axis = op.axis(op.attr.integer("axis", 0), len(shape)) if "axis" in op.attr else None
    kept = np.flatnonzero(op.need_constant(1, "condition"))
    extent = math.prod(shape) if axis is None else shape[axis]
    if kept.size and kept[-1] >= extent:
        raise op.invalid(f"condition selects element {kept[-1]} of {extent}")
    if axis is not None and len(kept) == extent:
        return op.value(0)
    flat = op.tensor(0) if axis is not None else reshaped(op, "flat", op.tensor(0), (extent,))
    indices = op.static("indices", kept, DType.INT_32)
    return op.emit("Gather", [flat, indices], axis=0 if axis is None else axis)


@ONNX.importer("ReverseSequence", versions=(10, 28))
def reverse_sequence(op: OpContext) -> Tensor:
    """Gather over time, or for several known lengths over batch and time as one dimension."""
    shape = op.spec(0).shape
    time, batch = op.attr.integer("time_axis", 0), op.attr.integer("batch_axis", 1)
    if len(shape) < 2 or {time, batch} != {0, 1}:
        raise op.invalid(f"time_axis {time} and batch_axis {batch} must be 0 and 1 of {shape}")
    lengths = np.asarray(op.need_ints(1, "sequence_lens"), np.int64)
    if lengths.shape != (shape[batch],) or np.any((lengths < 0) | (lengths > shape[time])):
        raise op.invalid(f"sequence_lens {lengths.tolist()} do not match {shape}")
    op.reserve_constant(shape[:2])
    if np.all(lengths == shape[time]):
        indices = op.static("indices", np.arange(shape[time])[::-1], DType.INT_32)
        return op.emit("Gather", [op.tensor(0), indices], axis=time)
    places = _reversed(lengths, shape[time])
    places = (
        places * shape[1] + np.arange(shape[1])
        if time == 0
        else (places.T + np.arange(shape[0])[:, np.newaxis] * shape[1])
    )
    flat = reshaped(op, "flat", op.tensor(0), (shape[0] * shape[1], *shape[2:]))
    indices = op.static("indices", places.reshape(-1), DType.INT_32)
    y = op.step("reversed", "Gather", [flat, indices], axis=0)
    return op.emit("Reshape", [y], spec=op.spec(0))


def _reversed(lengths: Array, steps: int) -> Array:
    """Return the source step for each (step, batch)."""
    step = np.arange(steps)[:, np.newaxis]
    found: Array = np.where(step < lengths, lengths - 1 - step, step)
    return found
