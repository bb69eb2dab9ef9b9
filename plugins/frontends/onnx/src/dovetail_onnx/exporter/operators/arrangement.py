"""Concatenation, splitting and repetition of tensors."""

from __future__ import annotations

import numpy as np

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("Pack")
def pack(e: NodeExport) -> None:
    """Concat of tensors with one more dimension."""
    shape, axis = e.spec(0).shape, e.op.axis
    row = (*shape[:axis], 1, *shape[axis:])
    rows = [e.flat(i, row) for i in range(len(e.node.inputs))]
    e.put(e.add("Concat", rows, axis=axis))


@exports("UnPack")
def unpack(e: NodeExport) -> None:
    """Split into slices, and Reshape of each."""
    shape, axis = e.spec(0).shape, e.op.axis
    inputs = [e.input(0), e.integers([1] * shape[axis])]
    rows = e.add_all("Split", inputs, [None] * shape[axis], axis=axis)
    for i, row in enumerate(rows):
        e.put(e.reshape(row, e.node.outputs[i].shape), i=i)


@exports("Tile")
def tile(e: NodeExport) -> None:
    """Tile."""
    order = e.layout(0)
    op, _ = e.in_order(order)
    e.put(e.add("Tile", [e.input(0, order), e.integers(op.multiples)]), order)


@exports("BatchPermutation")
def batch_permutation(e: NodeExport) -> None:
    """Write a Gather of the indices in range, then zeros; the indices must be constant."""
    indices = e.constant_input(1, "the indices").astype(np.int64)
    x, made = e.spec(0).shape, e.out.shape
    kept = indices[(indices >= 0) & (indices < x[0])]
    result = e.add("Gather", [e.input(0), e.integers(kept)], axis=0)
    if len(kept) < made[0]:
        rest = e.constant(np.zeros((made[0] - len(kept), *made[1:])), result)
        result = e.add("Concat", [result, rest], axis=0)
    e.put(result)
