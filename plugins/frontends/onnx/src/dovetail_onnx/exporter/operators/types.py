"""Conversions of type and encoding; shapes and constants as values."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("Convert", "Quantize", "Dequantize")
def convert(e: NodeExport) -> None:
    """Write only the conversion that the output's type needs: quantization, or a Cast."""
    order = e.layout(0)
    e.put(e.input(0, order), order)


@exports("Cast")
def cast(e: NodeExport) -> None:
    """Write a Cast of numbers; integers are dequantized or quantized."""
    if _same_integers(e.spec(0).dtype, e.out.dtype):
        order = e.layout(0)
        if e.out.dtype.is_fixed_point:
            e.values.define_real(e.node.outputs[0], e.input(0, order), order, e.node.where)
        else:
            e.put(e.values.integers(e.tensor(0), order, e.node.where), order)
        return
    if e.spec(0).dtype.is_fixed_point or e.out.dtype.is_fixed_point:
        raise e.unsupported(
            "stored integers are read as numbers, but tensors hold real values in ONNX",
            hint="Convert keeps real values",
        )
    order = e.layout(0)
    e.put(e.cast(e.input(0, order), e.out.dtype), order)


def _same_integers(one: DType, other: DType) -> bool:
    """Return whether one type is fixed-point, the other not, and both have the same integers."""
    kinds = {(dtype.bits, dtype.is_signed, dtype.is_packed) for dtype in (one, other)}
    plain = (one.is_int, other.is_int)
    fixed = (one.is_fixed_point, other.is_fixed_point)
    return len(kinds) == 1 and plain == fixed[::-1] and sum(plain) == 1


@exports("Shape")
def shape(e: NodeExport) -> None:
    """Write a constant, since shapes are static."""
    extents = e.spec(0).shape[e.op.start : e.op.end]
    e.put(e.constant(np.array(extents), DType.UINT_32))


@exports("ConstantOfShape")
def constant_of_shape(e: NodeExport) -> None:
    """Write a constant, since shapes are static."""
    out = e.out
    if out.dtype.is_fixed_point:
        raise e.unsupported("stored integers are returned, but tensors hold real values in ONNX")
    value = e.constant(e.op.value, out.dtype)
    e.put(e.add("Expand", [value, e.integers(out.shape)]))
