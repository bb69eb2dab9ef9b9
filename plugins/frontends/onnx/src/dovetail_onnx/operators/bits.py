"""Bitwise operators by arithmetic: QNN has no bitwise ops."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import DTYPES, element_type_name
from dovetail_onnx._registry import Importer, Value
from dovetail_onnx.operators._layout import reshaped
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("BitShift", versions=(11, 28))
def bit_shift(op: OpContext) -> Tensor:
    """Multiply by a power of two, or divide and floor; bits that are shifted out are lost."""
    x, direction = op.tensor(0), op.attr.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise op.invalid(f"unsupported direction '{direction}'; expected LEFT or RIGHT")
    count = _count(op, x)
    if direction == "RIGHT" and x.dtype.is_signed:
        return _signed_right(op, x, count)
    # a power beyond the type wraps to 0, and a quotient by 0 is 0
    two = op.static("two", np.asarray(2), x.dtype)
    power = op.step("power", "ElementWisePower", [two, count])
    kind = "ElementWiseMultiply" if direction == "LEFT" else "ElementWiseFloorDiv"
    return op.emit(kind, [x, power])


def _count(op: OpContext, x: Tensor) -> Tensor:
    """Return the distance to shift; a negative number shifts by all bits."""
    count = op.tensor(1)
    if not x.dtype.is_signed:
        return count
    zero, all_bits = (
        op.static(name, np.asarray(value), x.dtype)
        for name, value in (("zero", 0), ("all", x.dtype.bits))
    )
    negative = op.step("negative", "ElementWiseLess", [count, zero])
    return op.step("count", "ElementWiseSelect", [negative, all_bits, count])


def _signed_right(op: OpContext, x: Tensor, count: Tensor) -> Tensor:
    """Divide twice, since the type cannot hold the power that shifts out all bits but the sign."""
    two, most, one = (
        op.static(name, np.asarray(value), x.dtype)
        for name, value in (("two", 2), ("most", x.dtype.bits - 2), ("one", 1))
    )
    first = op.step("first", "ElementWiseMinimum", [count, most])
    rest = op.step("rest", "ElementWiseSubtract", [count, first])
    second = op.step("second", "ElementWiseMinimum", [rest, one])
    powers = [op.step("power", "ElementWisePower", [two, n]) for n in (first, second)]
    part = op.step("part", "ElementWiseFloorDiv", [x, powers[0]])
    return op.emit("ElementWiseFloorDiv", [part, powers[1]])


@ONNX.importer("BitwiseNot", versions=(18,))
def bitwise_not(op: OpContext) -> Tensor:
    """All bits set, minus x: nothing is borrowed."""
    x = op.tensor(0)
    ones = -1 if x.dtype.is_signed else x.dtype.stored_range()[1]
    return op.emit("ElementWiseSubtract", [op.static("ones", np.asarray(ones), x.dtype), x])


def _both(op: OpContext, a: Tensor, b: Tensor) -> Tensor:
    return op.step("both", "ElementWiseMultiply", [a, b])


def _either(op: OpContext, a: Tensor, b: Tensor) -> Tensor:
    return op.step("either", "ElementWiseMaximum", [a, b])


def _one(op: OpContext, a: Tensor, b: Tensor) -> Tensor:
    count = op.step("count", "ElementWiseAdd", [a, b])
    return op.step("one", "ElementWiseMod", [count, op.static("two", np.asarray(2), a.dtype)])


def _bitwise(op: OpContext) -> Tensor:
    """Split two integers into bits, combine these, and add up the result."""
    combine = {"BitwiseAnd": _both, "BitwiseOr": _either, "BitwiseXor": _one}[op.node.op_type]
    result = combine(op, _bits(op, 0), _bits(op, 1))
    weights = [1 << place for place in range(result.dtype.bits)]
    if result.dtype.is_signed:
        weights[-1] = -weights[-1]
    storage = result.dtype.storage
    factors = op.static("weights", np.asarray(weights, storage), result.dtype)
    weighted = op.step("weighted", "ElementWiseMultiply", [result, factors])
    return op.emit("ReduceSum", [weighted], axes=[len(result.shape) - 1], keep_dims=False)


def _bits(op: OpContext, i: int) -> Tensor:
    """Return the bits of an input, lowest first, along a new last axis."""
    x = op.tensor(i)
    column = reshaped(op, f"column{i}", x, (*x.shape, 1))
    places = np.arange(x.dtype.bits)
    # a signed type does not hold the power for its last bit: that one takes two divisions
    first = np.minimum(places, x.dtype.bits - (2 if x.dtype.is_signed else 1))
    for part, shifts in (("low", first), ("high", places - first)):
        if shifts.any():
            powers = np.asarray([1 << int(n) for n in shifts], x.dtype.storage)
            divisors = op.static(f"{part}{i}.powers", powers, x.dtype)
            column = op.step(f"{part}{i}", "ElementWiseFloorDiv", [column, divisors])
    return op.step(f"bits{i}", "ElementWiseMod", [column, op.static("two", np.asarray(2), x.dtype)])


_IMPORTER: Importer = _bitwise
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    ONNX.importer(_name, versions=(18,))(_IMPORTER)


@ONNX.importer("BitCast", versions=(26,))
def bit_cast(op: OpContext) -> Value:
    """Reinterpret integers of up to 32 bits as signed or unsigned; bools become 0 and 1.

    Arithmetic moves the range of the source type: Cast is undefined for numbers out of range.
    """
    x, code = op.tensor(0), op.attr.integer("to", 0)
    target = DTYPES.get(code)
    if target is None:
        raise op.unsupported(f"unsupported target type {element_type_name(code)}")
    if target is x.dtype:
        return x
    if target.bits != x.dtype.bits:
        raise op.invalid(f"{x.dtype.name} and {target.name} differ in size")
    if x.dtype is DType.BOOL_8:
        return op.emit("Cast", [x], spec=Spec(target, x.shape))
    if not (x.dtype.is_int and target.is_int) or target.bits > 32:
        raise op.unsupported(
            f"cannot read the bits of {x.dtype.name} as {target.name}: no op returns the "
            "bits of a number"
        )
    wide = op.step("wide", "Cast", [x], spec=Spec(DType.INT_64, x.shape))
    turn = 1 << target.bits
    limit, shift = (turn // 2, -turn) if target.is_signed else (0, turn)
    kind = "ElementWiseGreaterEqual" if target.is_signed else "ElementWiseLess"
    beyond = op.step("beyond", kind, [wide, op.static("limit", np.asarray(limit), DType.INT_64)])
    shifted = op.step(
        "shifted", "ElementWiseAdd", [wide, op.static("turn", np.asarray(shift), DType.INT_64)]
    )
    moved = op.step("moved", "ElementWiseSelect", [beyond, shifted, wide])
    return op.emit("Cast", [moved], spec=Spec(target, x.shape))
