"""Changes of type."""

from __future__ import annotations

from dovetail.ir import DType, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import DTYPES, element_type_name
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("Cast", versions=(6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(op: OpContext) -> Value:
    """Cast, or Convert where bfloat16 is involved, which Cast cannot widen."""
    code = op.attr.integer("to", 0)
    dtype = DTYPES.get(code)
    if dtype is None:
        raise op.refuse(f"its target type {element_type_name(code)} cannot be converted")
    return _cast(op, dtype)


@ONNX.importer("CastLike", versions=(15, 19, 21, 23, 24, 25))
def cast_like(op: OpContext) -> Value:
    """A cast to the second input's type."""
    return _cast(op, op.spec(1).dtype)


def _cast(op: OpContext, dtype: DType) -> Value:
    x = op.spec(0)
    if x.dtype is dtype:
        return op.value(0)
    op_type = "Convert" if DType.BFLOAT_16 in (x.dtype, dtype) else "Cast"
    return op.emit(op_type, [op.tensor(0)], spec=Spec(dtype, x.shape))
