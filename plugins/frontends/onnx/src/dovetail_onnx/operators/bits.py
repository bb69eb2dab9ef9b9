"""Bitwise operators by arithmetic: QNN has no bitwise ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import DType
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import DTYPES, element_type_name
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._formula import Expr, maximum, minimum, operand, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


@ONNX.importer("BitShift", versions=(11, 28))
def bit_shift(op: OpContext) -> Value:
    """Multiply by a power of two, or divide and floor; bits that are shifted out are lost."""
    x, direction = operand(op, 0), op.attr.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise op.invalid(f"unsupported direction '{direction}'; expected LEFT or RIGHT")
    count = operand(op, 1)
    if x.dtype.is_signed:  # a negative number shifts by all bits
        count = where(count < 0, x.dtype.bits, count)
        if direction == "RIGHT":
            return _signed_right(x, count).emit()
    # a power beyond the type wraps to 0, and a quotient by 0 is 0
    return (x * 2**count if direction == "LEFT" else x // 2**count).emit()


def _signed_right(x: Expr, count: Expr) -> Expr:
    """Divide twice, since the type cannot hold the power that shifts out all bits but the sign."""
    first = minimum(count, x.dtype.bits - 2)
    second = minimum(count - first, 1)
    return x // 2**first // 2**second


@ONNX.importer("BitwiseNot", versions=(18,))
def bitwise_not(op: OpContext) -> Value:
    """All bits set, minus x: nothing is borrowed."""
    x = operand(op, 0)
    ones = -1 if x.dtype.is_signed else x.dtype.stored_range()[1]
    return (ones - x).emit()


_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "BitwiseAnd": lambda a, b: a * b,
    "BitwiseOr": maximum,
    "BitwiseXor": lambda a, b: (a + b) % 2,
}


def _bitwise(op: OpContext) -> Value:
    """Split two integers into bits, combine these, and add up the result."""
    result = _COMBINE[op.node.op_type](_bits(op, 0), _bits(op, 1))
    weights = [1 << place for place in range(result.dtype.bits)]
    if result.dtype.is_signed:
        weights[-1] = -weights[-1]
    weighted = result * np.asarray(weights, result.dtype.storage)
    return weighted.step("ReduceSum", axes=[len(result.shape) - 1], keep_dims=False).emit()


def _bits(op: OpContext, i: int) -> Expr:
    """Return the bits of an input, lowest first, along a new last axis."""
    x = operand(op, i)
    column = x.reshaped((*x.shape, 1))
    places = np.arange(x.dtype.bits)
    # a signed type does not hold the power for its last bit: that one takes two divisions
    first = np.minimum(places, x.dtype.bits - (2 if x.dtype.is_signed else 1))
    for shifts in (first, places - first):
        if shifts.any():
            column //= np.asarray([1 << int(n) for n in shifts], x.dtype.storage)
    return column % 2


_IMPORTER: Importer = _bitwise
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    ONNX.importer(_name, versions=(18,))(_IMPORTER)


@ONNX.importer("BitCast", versions=(26,))
def bit_cast(op: OpContext) -> Value:
    """Reinterpret integers of up to 32 bits as signed or unsigned; bools become 0 and 1.

    Arithmetic moves the range of the source type: Cast is undefined for numbers out of range.
    """
    x, code = operand(op, 0), op.attr.integer("to", 0)
    target = DTYPES.get(code)
    if target is None:
        raise op.unsupported(f"unsupported target type {element_type_name(code)}")
    if target is x.dtype:
        return x.emit()
    if target.bits != x.dtype.bits:
        raise op.invalid(f"{x.dtype.name} and {target.name} differ in size")
    if x.dtype is DType.BOOL_8:
        return x.cast(target).emit()
    if not (x.dtype.is_int and target.is_int) or target.bits > 32:
        raise op.unsupported(
            f"cannot read the bits of {x.dtype.name} as {target.name}: no op returns the "
            "bits of a number"
        )
    wide, turn = x.cast(DType.INT_64), 1 << target.bits
    if target.is_signed:
        beyond, shift = wide >= turn // 2, -turn
    else:
        beyond, shift = wide < 0, turn
    return where(beyond, wide + shift, wide).cast(target).emit()
