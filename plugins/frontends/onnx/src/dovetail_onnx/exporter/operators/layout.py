"""Changes of shape and order."""

from __future__ import annotations

from itertools import pairwise

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_opset.perms import composed, inverse


@exports("Reshape", "ExpandDims", "Squeeze")
def reshape(e: NodeExport) -> None:
    """Reshape to the shape of the output."""
    e.put(e.flat(0, e.out.shape))


@exports("Transpose")
def transpose(e: NodeExport) -> None:
    """Write nothing: the value represents the tensor in another order."""
    x, out = e.spec(0), e.out
    order = e.layout_of(0)
    perm = tuple(int(axis) for axis in e.op.perm)
    turned = composed(inverse(perm), order)
    encoding = None if x.encoding is None else x.encoding.transposed(perm)
    if (x.dtype, encoding) == (out.dtype, out.encoding):
        e.pass_on(turned)
    else:
        e.put(e.input(0, order), turned)


@exports("Concat")
def concat(e: NodeExport) -> None:
    """Write Concat along the axis in the value's order."""
    order = e.layout()
    op, _ = e.in_order(order)
    inputs = [e.input(i, order) for i in range(len(e.node.inputs))]
    e.put(e.add("Concat", inputs, axis=op.axis), order)


@exports("Split")
def split(e: NodeExport) -> None:
    """Write Split along the axis in the value's order."""
    order = e.layout_of(0)
    op, _ = e.in_order(order)
    bounds = [0, *(int(i) for i in e.op.split_index), e.spec(0).shape[e.op.axis]]
    sizes = [end - begin for begin, end in pairwise(bounds)]
    inputs = [e.input(0, order), e.integers(sizes)]
    found = e.add_all("Split", inputs, [None] * len(sizes), axis=op.axis)
    for i, piece in enumerate(found):
        e.put(piece, order, i)
