"""Maxima, minima and their indices, and the elements that are not zero."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dovetail.ir import DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("Argmax", "Argmin")
def arg_extreme(e: NodeExport) -> None:
    """Write ArgMax or ArgMin along the axis in the value's order."""
    order = e.layout_of(0)
    op, left = e.in_order(order)
    op_type = "ArgMax" if e.node.op_type == "Argmax" else "ArgMin"
    attributes = {"axis": op.axis, "keepdims": int(op.keep_dims)}
    result = e.add(op_type, [e.input(0, order)], TensorProto.INT64, **attributes)
    e.put(result, left)


@exports("TopK")
def top_k(e: NodeExport) -> None:
    """TopK of the elements in reverse, since of equal ones the last comes first here."""
    extent = e.spec(0).shape[-1]
    backwards = [e.integers([v]) for v in (-1, -(2**31), -1, -1)]
    x = e.add("Slice", [e.input(0), *backwards])
    attributes = {"axis": -1, "largest": int(e.op.largest), "sorted": 1}
    count = e.integers([e.op.k])
    values, indices = e.add_all("TopK", [x, count], [None, TensorProto.INT64], **attributes)
    last = e.constant(extent - 1, DType.INT_64)
    e.put(values, i=0)
    e.put(e.add("Sub", [last, indices]), i=1)


@exports("NonZero")
def non_zero(e: NodeExport) -> None:
    """Write NonZero, with indices as rows, filled up with zeros."""
    rows, rank = e.out.shape
    if not rank:
        raise e.unsupported("ONNX's NonZero takes no scalar")
    places = e.add("Transpose", [e.add("NonZero", [e.input(0)], TensorProto.INT64)], perm=[1, 0])
    zeros = e.constant(np.zeros((rows, rank)), DType.INT_64)
    filled = e.add("Concat", [places, zeros], axis=0)
    e.put(e.add("Slice", [filled, *(e.integers([v]) for v in (0, rows, 0))]))
