"""Changes of type."""

from __future__ import annotations

from onnx import TensorProto

from dovetail.ir import DType, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import PACKED, dtype_of, element_type_name
from dovetail_onnx.operators._formula import operand
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


@ONNX.importer("Cast", versions=(6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(op: OpContext) -> Value:
    """Cast, or Convert where bfloat16 is involved, which Cast cannot widen."""
    code = op.attr.integer("to", 0)
    dtype = dtype_of(code)
    if dtype is None:
        raise op.unsupported(f"unsupported target type {element_type_name(code)}")
    return _cast(op, dtype, code if code in PACKED else None)


@ONNX.importer("CastLike", versions=(15, 19, 21, 23, 24, 25))
def cast_like(op: OpContext) -> Value:
    """Cast to the second input's type."""
    return _cast(op, op.spec(1).dtype, op.packed(1))


def _cast(op: OpContext, dtype: DType, packed: int | None) -> Value:
    x = op.spec(0)
    if x.dtype is dtype and op.packed(0) == packed:
        return op.value(0)
    if packed is not None:
        return _narrowed(op, packed)
    if x.dtype is dtype:  # 4 bits in bytes become bytes: two different tensors
        return op.emit("Reshape", [op.tensor(0)], spec=x)
    op_type = "Convert" if DType.BFLOAT_16 in (x.dtype, dtype) else "Cast"
    return op.emit(op_type, [op.tensor(0)], spec=Spec(dtype, x.shape))


def _narrowed(op: OpContext, code: int) -> Value:
    """Return the last 4 bits of truncated numbers, with a sign or without."""
    x = operand(op, 0)
    if x.dtype is DType.BFLOAT_16:
        x = x.cast(DType.FLOAT_32)
    if x.dtype.is_float:
        x = x.cast(DType.INT_32)
    if x.dtype is DType.BOOL_8:
        return x.cast(PACKED[code]).emit()
    if code == TensorProto.UINT4:
        low = x % 16
        return low.emit() if x.dtype is DType.UINT_8 else low.cast(DType.UINT_8).emit()
    # moved by 8 and back; what goes beyond a type on the way comes back at its other end, which is
    # a multiple of 16 away
    return (((x + 8) % 16).cast(DType.INT_8) - 8).emit()
