"""Rows of a table of a few bits, with one scale for each block of a row."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from onnx import TensorProto

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators.microsoft._stored import unpacked
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Constant, Value

_BYTE = 8
_BITS = (4, _BYTE)


@MICROSOFT.importer("GatherBlockQuantized", versions=(1,))
def gather_block_quantized(op: OpContext) -> Value:
    """Gather of the dequantized table, which must be known and keeps its grid."""
    bits, rank = op.attr.integer("bits", 4), len(op.need_constant(0, "data").shape)
    if bits not in _BITS:
        raise op.unsupported(f"unsupported table of {bits} bits; expected 4 or 8")
    axis, scales = op.axis(op.attr.integer("quantize_axis", 1), rank), op.value(2)
    is_bytes = op.packed(0) is None
    if is_bytes and (op.spec(0).dtype is not DType.UINT_8 or axis != rank - 1):
        raise op.invalid(
            f"{op.spec(0).dtype.name} data must be bytes, with blocks along the last axis"
        )
    table = _stored(op, 0, bits)
    if op.has(3):
        zeros = _stored(op, 3, bits)
    else:
        middle = 1 << (bits - 1) if is_bytes else 0
        point = np.full(scales.shape, middle, table.dtype.storage)
        zeros = Constant(point, table.dtype, f"{op.node.name}.zeros", table.packed)
    if is_bytes and zeros.shape[-1:] > scales.shape[-1:]:  # an odd number of blocks fills no byte
        zeros = replace(zeros, values=zeros.values[..., : scales.shape[-1]])
    block = op.attr.integer("block_size", 128)
    real = Expr(op, table).apply("DequantizeLinear", scales, zeros, axis=axis, block_size=block)
    value = real.named("table").value
    if isinstance(value, Constant):  # under its name in the user's model
        real = Expr(op, replace(value, name=op.value(0).name))
    return real.apply("Gather", op.value(1), axis=op.attr.integer("gather_axis", 0)).emit()


def _stored(op: OpContext, i: int, bits: int) -> Constant:
    """Return known integers; bytes of two 4-bit ones become these."""
    values, packed = op.need_constant(i, "data"), op.packed(i)
    if packed is None and bits < _BYTE:
        values, packed = unpacked(values, bits), TensorProto.UINT4
    return Constant(values, op.spec(i).dtype, f"{op.node.name}.stored{i}", packed)
