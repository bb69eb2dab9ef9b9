"""Gathering, scattering and one-hot vectors, by index."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dovetail.ir import DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("Gather")
def gather(e: NodeExport) -> None:
    """Gather."""
    e.put(e.add("Gather", [e.input(0), _indices(e)], axis=int(e.op.axis)))


@exports("GatherElements")
def gather_elements(e: NodeExport) -> None:
    """GatherElements."""
    e.put(e.add("GatherElements", [e.input(0), _indices(e)], axis=int(e.op.axis)))


@exports("GatherNd")
def gather_nd(e: NodeExport) -> None:
    """GatherND."""
    e.put(e.add("GatherND", [e.input(0), _indices(e)], batch_dims=int(e.op.batch_dims)))


@exports("ScatterElements")
def scatter_elements(e: NodeExport) -> None:
    """ScatterElements."""
    inputs = [e.input(0), _indices(e), e.input(2)]
    reduction = e.op.reduction.name.lower()
    e.put(e.add("ScatterElements", inputs, axis=int(e.op.axis), reduction=reduction))


@exports("ScatterNd")
def scatter_nd(e: NodeExport) -> None:
    """ScatterND."""
    inputs = [e.input(0), _indices(e), e.input(2)]
    e.put(e.add("ScatterND", inputs, reduction=e.op.reduction.name.lower()))


@exports("OneHot")
def one_hot(e: NodeExport) -> None:
    """OneHot."""
    out, values = e.out, [e.op.off_value, e.op.on_value]
    if out.dtype.is_fixed_point:
        raise e.unsupported("ONNX's OneHot returns real values, but out[0] is quantized")
    inputs = [_indices(e), e.constant(e.op.depth, DType.INT_64), e.constant(values, out.dtype)]
    e.put(e.add("OneHot", inputs, out.dtype, axis=int(e.op.axis)))


def _indices(e: NodeExport) -> str:
    """Return the indices in a type that ONNX takes for them."""
    i = 0 if e.node.op_type == "OneHot" else 1
    tensor = e.tensor(i)
    if tensor.kind.is_static:
        return e.constant(np.asarray(tensor.values()), DType.INT_64)
    return e.cast(e.input(i), TensorProto.INT64)
