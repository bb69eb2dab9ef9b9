"""Matrix products."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped


@ONNX.importer("MatMul", versions=(1, 9, 13))
def matmul(op: OpContext) -> Tensor:
    """FullyConnected for a matrix times known weights, else MatMul."""
    a, b = op.spec(0), op.spec(1)
    if not a.shape or not b.shape:
        raise op.invalid("inputs must not be scalars", hint="use Mul")
    if len(a.shape) == 2 and len(b.shape) == 2 and op.is_static(1):
        return op.emit("FullyConnected", [op.tensor(0), op.arranged(1, (1, 0))])
    if len(a.shape) > 1 and len(b.shape) > 1:
        return op.emit("MatMul", [op.tensor(0), op.tensor(1)])
    left, right = op.tensor(0), op.tensor(1)
    if len(a.shape) == 1:
        left = reshaped(op, "row", left, (1, *a.shape))
    if len(b.shape) == 1:
        right = reshaped(op, "column", right, (*b.shape, 1))
    product = op.step("product", "MatMul", [left, right])
    kept = list(product.shape)
    if len(b.shape) == 1:
        del kept[-1]
    if len(a.shape) == 1:
        del kept[-1 if len(b.shape) == 1 else -2]
    return op.emit("Reshape", [product], spec=Spec(product.dtype, tuple(kept)))


@ONNX.importer("Gemm", versions=(1, 6, 7, 9, 11, 13))
def gemm(op: OpContext) -> Value:
    """FullyConnected for known weights, else MatMul; alpha and beta go into constants."""
    if len(op.spec(0).shape) != 2 or len(op.spec(1).shape) != 2:
        raise op.invalid(f"inputs {op.spec(0).shape} and {op.spec(1).shape} must be matrices")
    transposed = bool(op.attr.integer("transB", 0))
    units = op.spec(1).shape[0 if transposed else 1]
    bias = _bias(op, units)
    last = bias is not None or not op.has(2) or op.attr.number("beta", 1.0) == 0
    if op.constant(1) is not None or (op.is_static(1) and op.attr.number("alpha", 1.0) == 1):
        product = _connected(op, transposed=transposed, bias=bias, last=last)
    else:
        product = _multiplied(op, transposed=transposed, bias=bias, last=last)
    if last:
        return product
    addend, beta = operand(op, 2), op.attr.number("beta", 1.0)
    return (Expr(op, product) + (addend if beta == 1 else addend * beta)).emit()


def _bias(op: OpContext, units: int) -> Tensor | None:
    """Return beta * c where c is known and the same for every row."""
    c, beta = op.constant(2), op.attr.number("beta", 1.0)
    if c is None and beta == 1 and op.is_static(2) and op.spec(2).shape == (units,):
        return op.tensor(2)
    if c is None or beta == 0 or c.size not in (1, units) or c.shape[:-1] not in ((), (1,)):
        return None
    if c.shape == (units,) and beta == 1:
        return op.tensor(2)
    op.reserve_constant((units,))
    values = np.broadcast_to(c.reshape(-1), (units,))
    return op.static("bias", _scaled(values, beta), op.spec(2).dtype)


def _connected(op: OpContext, *, transposed: bool, bias: Tensor | None, last: bool) -> Tensor:
    alpha, spec = op.attr.number("alpha", 1.0), op.spec(1)
    x = op.arranged(0, (1, 0)) if op.attr.integer("transA", 0) else op.tensor(0)
    perm = (0, 1) if transposed else (1, 0)
    if alpha == 1:
        weights = op.arranged(1, perm)
    else:
        values = op.need_constant(1, "weights").transpose(perm)
        weights = op.static("weights", _scaled(values, alpha), spec.dtype)
    inputs = [x, weights, bias]
    if last:
        return op.emit("FullyConnected", inputs)
    return op.step("product", "FullyConnected", inputs)


def _multiplied(op: OpContext, *, transposed: bool, bias: Tensor | None, last: bool) -> Tensor:
    alpha = op.attr.number("alpha", 1.0)
    left = op.tensor(0) if alpha == 1 else (operand(op, 0) * alpha).tensor
    if op.attr.integer("transA", 0):
        left = op.step("input0", "Transpose", [left], perm=(1, 0))
    inputs = [left, op.tensor(1), bias]
    if last:
        return op.emit("MatMul", inputs, transpose_in1=transposed)
    return op.step("product", "MatMul", inputs, transpose_in1=transposed)


def _scaled(values: Array, factor: float) -> Array:
    scaled: Array = values * np.asarray(factor, values.dtype)
    return scaled
