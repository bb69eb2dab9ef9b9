"""Operators on stored tensors, as float operators between DequantizeLinear and QuantizeLinear.

They have this form if scales and zero points are known: the same network has it if it is
quantized with QuantizeLinear and DequantizeLinear. Sums are then float32, and a result within
rounding of the middle between two integers may become either.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import value
from dovetail_opset.importing.constant import Constant, Value


def are_known(op: OpContext, *numbers: int) -> bool:
    """Return whether all given ones of some inputs are known at import."""
    return all(not op.has(i) or op.constant(i) is not None for i in numbers)


def are_single(op: OpContext, *numbers: int) -> bool:
    """Return whether all given ones of some inputs have a single element, known at import."""
    return are_known(op, *numbers) and all(
        not op.has(i) or op.value(i).shape in ((), (1,)) for i in numbers
    )


def are_columns(op: OpContext, matrix: int, *numbers: int) -> bool:
    """Return whether inputs are known and have one element each or one for each column of a matrix.

    Args:
        op: The node.
        matrix: The input that is the matrix; a vector has no columns.
        numbers: The inputs; omitted ones are ignored.
    """
    shape = op.spec(matrix).shape
    forms = [(), (1,), *([shape[-1:]] if len(shape) > 1 else [])]
    given = [op.spec(i).shape for i in numbers if op.has(i)]
    return are_known(op, *numbers) and all(each in forms for each in given)


def real_input(op: OpContext, i: int, scale: int, zero: int, axis: int | None = None) -> Expr:
    """Return a stored input as real numbers.

    Args:
        op: The node.
        i: The input.
        scale: The number of its scale.
        zero: The number of its zero point.
        axis: The axis of several scales.
    """
    scales, point = op.value(scale), value(op, zero)
    if isinstance(point, Constant) and point.shape != scales.shape and point.values.size == 1:
        filled = np.broadcast_to(point.values.reshape(()), scales.shape)
        point = Constant(filled, point.dtype, f"{point.name}.{op.node.name}", point.packed)
    return _real(op, i, scales, point, axis=axis)


def real_bias(op: OpContext, i: int, a: int, b: int) -> Expr | None:
    """Return a stored bias as real numbers: its scale is the product of two others, None for none.

    Args:
        op: The node.
        i: The input.
        a: The number of one scale.
        b: The number of the other.
    """
    if not op.has(i):
        return None
    one, other = (op.need_constant(k, "scale").astype(np.float32) for k in (a, b))
    product = one.reshape(-1) * other.reshape(-1)
    product = product.reshape(()) if product.size == 1 else product
    scale = Constant(product, DType.FLOAT_32, f"{op.node.name}.scale{i}")
    return _real(op, i, scale, None, axis=-1)


def _real(
    op: OpContext, i: int, scale: Value, point: Value | None, *, axis: int | None = None
) -> Expr:
    """Return a stored input as real numbers; constants under its name, as in the user's model."""
    real = value_of(op, i).apply("DequantizeLinear", scale, point, axis=axis).named(f"real{i}")
    if isinstance(real.value, Constant):
        return Expr(op, replace(real.value, name=op.value(i).name))
    return real


def emit_stored(op: OpContext, real: Expr, scale: int, point: Value | None) -> Value:
    """Emit real numbers as the node's stored output, whose name they get.

    Args:
        op: The node.
        real: The numbers.
        scale: The input that is the scale.
        point: The zero point.
    """
    if isinstance(real.value, Tensor):
        _rename(op, real.value)
    return real.apply("QuantizeLinear", op.value(scale), point).emit()


def _rename(op: OpContext, real: Tensor) -> None:
    """Return a tensor, and those before it that are the same in another layout, the output's name.

    The real numbers have no name in the user's model, which has only integers.
    """
    old, tensor = real.source, real
    while tensor.source == old and old.startswith(f"{op.node.name}."):
        tensor.source = op.node.outputs[0]
        maker = op.graph.producer(tensor)
        before = None if maker is None or maker.op_type != "Transpose" else maker.inputs[0]
        if before is None:
            return
        tensor = before
