"""Values stored as integers with scale and zero point: results, and exact products."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._between import emit_stored
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import constant, value
from dovetail_opset.importing.constant import Value


def emit_quantized(op: OpContext, real: Expr, *, scale: int, zero: int, like: DType) -> Value:
    """Emit real numbers as the node's output, stored in the type of the zero point.

    Args:
        op: The node.
        real: The numbers.
        scale: The input that is the scale.
        zero: The input that is the zero point.
        like: Their type if the zero point is omitted, which is then 0.
    """
    point = op.value(zero) if op.has(zero) else constant(op, "zero", 0, like)
    return emit_stored(op, real, scale, point)


def integer_product(
    op: OpContext, a: Expr, b: Expr, zeros: tuple[int, int], *, bias: int | None = None
) -> Expr:
    """Return the product of stored matrices less their zero points, exactly, as float32.

    Args:
        op: The node.
        a: The first matrix.
        b: The second.
        zeros: The inputs that are their zero points.
        bias: A 32-bit bias that is added, None for none.
    """
    sums = a.apply("MatMulInteger", b, *(value(op, i) for i in zeros))
    if bias is not None and op.has(bias):
        sums += op.value(bias)
    return sums.cast(DType.FLOAT_32)


def need_one(op: OpContext, i: int, what: str) -> None:
    """Raise if an input has several numbers.

    Raises:
        UnsupportedOpError: It has several.
    """
    if op.has(i) and op.spec(i).shape not in ((), (1,)):
        raise op.unsupported(
            f"unsupported {what} of shape {op.spec(i).shape}; expected a single number",
            hint="quantize that matrix as a whole",
        )


def unpacked(packed: Array, bits: int) -> Array:
    """Return (..., n * 8 / bits) of numbers that (..., n) bytes hold, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = packed[..., None] >> shifts & np.uint8(2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)
