"""Indices of the maximum and minimum, and sorting.

ONNX's indices are INT_64; the ops count in INT_32, so a Cast follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._table import ONNX


def _extreme(op_type: str) -> Importer:
    def convert(op: OpContext) -> Tensor:
        x = op.tensor(0)
        axis = op.axis(op.attr.integer("axis", 0), len(x.shape))
        takes_last = bool(op.attr.integer("select_last_index", 0))
        if takes_last:
            x = _reversed(op, x, axis)
        keep = bool(op.attr.integer("keepdims", 1))
        found = op.step("place", op_type, [x], axis=axis, keep_dims=keep)
        if takes_last:
            found = _from_the_end(op, found, x.shape[axis])
        return op.emit("Cast", [found], spec=Spec(DType.INT_64, found.shape))

    return convert


ONNX.importer("ArgMax", versions=(1, 11, 12, 13))(_extreme("Argmax"))
ONNX.importer("ArgMin", versions=(1, 11, 12, 13))(_extreme("Argmin"))


@ONNX.importer("TopK", versions=(1, 10, 11, 24))
def top_k(op: OpContext) -> Sequence[Tensor | None]:
    """TopK along the reversed axis, since ONNX selects the first of equal elements.

    The op selects the one with the larger index, and works along the last axis. It always sorts,
    which is also allowed if the node does not require sorting.
    """
    rank = len(op.spec(0).shape)
    axis = op.axis(op.attr.integer("axis", -1), rank)
    extent, k = op.spec(0).shape[axis], _count(op)
    if not 0 <= k <= extent:
        raise op.invalid(f"k is {k}, but axis {axis} of {op.spec(0).shape} has {extent} elements")
    to_last = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(int(i) for i in np.argsort(to_last))
    is_last = axis == rank - 1
    x = _reversed(op, op.tensor(0) if is_last else op.arranged(0, to_last), rank - 1)
    values, places = op.step_all(
        "sorted",
        "TopK",
        [x],
        [op.node.outputs[0] if is_last else "", ""],
        specs=[None, Spec(DType.INT_32, (*x.shape[:-1], k))],
        k=k,
        largest=bool(op.attr.integer("largest", 1)),
    )
    if not is_last and op.is_output_used(0):
        values = op.emit("Transpose", [values], perm=back)
    if not op.is_output_used(1):
        return [values, None]
    places = _from_the_end(op, places, extent)
    if not is_last:
        places = op.step("ordered", "Transpose", [places], perm=back)
    return [values, op.emit("Cast", [places], output=1, spec=Spec(DType.INT_64, places.shape))]


def _count(op: OpContext) -> int:
    if op.version < 10:
        return op.attr.integer("k", -1)
    given = op.need_ints(1, "k")
    if len(given) != 1:
        raise op.invalid(f"k must be a single number, got {given}")
    return given[0]


def _reversed(op: OpContext, x: Tensor, axis: int) -> Tensor:
    """Return a tensor with the order of its elements reversed along an axis."""
    if x.shape[axis] < 2:
        return x
    rows = [(0, extent, 1) for extent in x.shape]
    rows[axis] = (x.shape[axis] - 1, -1, -1)
    return op.step("reversed", "StridedSlice", [x], ranges=rows)


def _from_the_end(op: OpContext, places: Tensor, extent: int) -> Tensor:
    """Return the indices in an axis for indices into the reversed axis."""
    return (extent - 1 - Expr(op, places)).tensor
