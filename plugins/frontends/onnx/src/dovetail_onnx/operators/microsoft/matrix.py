"""Matrix products with fused operators."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import given, value
from dovetail_onnx.operators.microsoft._fused import activated
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value

_GEMM = ("alpha", "beta", "transA", "transB")
_NUMBERS = ("activation_alpha", "activation_beta", "activation_gamma")


@MICROSOFT.importer("FusedGemm", versions=(1,))
def fused_gemm(op: OpContext) -> Value:
    """Gemm and an activation."""
    rest = [value(op, i) for i in range(1, min(op.count, 3))]
    y = value_of(op, 0).apply("Gemm", *rest, **given(op, _GEMM))
    numbers = [op.attr.number(name, 0.0) for name in _NUMBERS if name in op.attr]
    return activated(op, y, op.attr.text("activation", ""), numbers).emit()


@MICROSOFT.importer("FusedMatMul", versions=(1,))
@MICROSOFT.importer("TransposeMatMul", versions=(1,))
def fused_matmul(op: OpContext) -> Value:
    """MatMul of factors transposed, times alpha."""
    product, alpha = _factor(op, 0, "A") @ _factor(op, 1, "B"), op.attr.number("alpha", 1.0)
    return (product if alpha == 1 else product * alpha).emit()


def _factor(op: OpContext, i: int, letter: str) -> Expr:
    """Return a factor with the rows and columns of its matrices in the last two dimensions."""
    rank = len(op.spec(i).shape)
    perm = list(range(rank))
    if rank > 2 and op.attr.integer(f"transBatch{letter}", 0):
        perm = [*perm[1:-1], 0, perm[-1]]
    if rank > 1 and op.attr.integer(f"trans{letter}", 0):
        perm[-2:] = perm[:-3:-1]
    if perm == list(range(rank)):
        return value_of(op, i)
    return value_of(op, i).apply("Transpose", perm=perm)
