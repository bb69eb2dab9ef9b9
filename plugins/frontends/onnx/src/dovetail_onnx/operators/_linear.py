"""QuantizeLinear and DequantizeLinear of known numbers: their encodings, and constants.

Those of constants are computed at import; ONNX's own evaluator lacks some of their versions, and
differs in others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, DType, Shape, Spec, quantize
from dovetail_onnx._context import OpContext
from dovetail_onnx._grids import exact_grid, grid_of, kind_of
from dovetail_opset.importing.constant import Constant

_REAL = (DType.FLOAT_32, DType.FLOAT_16)
# Result types of QuantizeLinear; 4-bit ones are stored in bytes. Products of more bits with scales
# are float32 in ONNX, but float64 in the IR.
NARROW = (DType.INT_8, DType.UINT_8, DType.INT_16, DType.UINT_16)


def known_real(op: OpContext, target: DType) -> Constant | None:
    """Return a DequantizeLinear of constants, with its grid; None if it must run later.

    Args:
        op: The node.
        target: The type of its output.
    """
    x = _inputs(op)
    kind = None if x is None else kind_of(x)
    if x is None or kind is None or target not in _REAL:
        return None
    scale, zero = np.asarray(op.need_constant(1, "scale")), op.constant(2)
    wide = np.float64 if x.dtype.bits > 16 else np.float32
    points = np.zeros((), wide) if zero is None else _spread(op, 2, x.shape).astype(wide)
    difference = np.subtract(x.values, points, dtype=wide)
    factor = _spread(op, 1, x.shape).astype(np.float32)
    values = np.asarray(difference * factor, target.storage)
    grid = grid_of(
        kind[0],
        signed=kind[1],
        shape=x.shape,
        scales=scale,
        zeros=_of_each(zero, scale.shape),
        axis=op.attr.integer("axis", 1),
        block=op.attr.integer("block_size", 0),
    )
    return Constant(values, target, op.node.outputs[0], None, grid)


def known_grid(op: OpContext, integers: DType, packed: int | None) -> Spec | None:
    """Return how the IR stores a node's integers; None for unknown numbers, or without encoding.

    Args:
        op: The node: a QuantizeLinear or a DequantizeLinear.
        integers: Their type.
        packed: Their element type if that is of 4 bits.
    """
    scale, zero = op.constant(1), op.constant(2)
    if scale is None or (zero is None and op.has(2)) or integers not in NARROW:
        return None
    zeros = _of_each(zero, scale.shape)
    if zeros.shape != scale.shape:
        return None
    return exact_grid(
        integers.bits if packed is None else 4,
        signed=integers.is_signed,
        shape=op.spec(0).shape,
        scales=scale,
        zeros=zeros,
        axis=op.attr.integer("axis", 1),
        block=op.attr.integer("block_size", 0),
    )


def _of_each(zero: Array | None, shape: Shape) -> Array:
    """Return the zero point of each scale: 0 if omitted; a single one applies to all."""
    if zero is None:
        return np.zeros(shape, np.int64)
    return np.broadcast_to(zero.reshape(()), shape) if zero.size == 1 else np.asarray(zero)


def known_integers(op: OpContext, target: DType, grid: Spec) -> Constant | None:
    """Return a QuantizeLinear of constants; None if it must run later.

    Args:
        op: The node.
        target: The type of its output.
        grid: The same integers in the IR.
    """
    x = _inputs(op)
    if x is None or x.dtype not in _REAL or grid.encoding is None:
        return None
    values = quantize(x.values, grid.encoding, grid.dtype)
    return Constant(values, target, op.node.outputs[0])


def fitted(op: OpContext, i: int, x: Shape) -> tuple[Shape, int, int]:
    """Return how the scale or zero point of an input corresponds to the elements of x.

    Returns:
        The shape to give it, then an axis, and how often each slice along that is repeated, 1 where
        it broadcasts to x. The last block may be short: elements beyond x must be cut off.

    Raises:
        FrontendError: It fits neither x, nor an axis, nor blocks of one.
    """
    given = op.spec(i).shape
    if math.prod(given) == 1:
        return (), 0, 1
    axis = op.axis(op.attr.integer("axis", 1), len(x))
    extent = x[axis]
    if given == (math.prod(x),) and given[0] in x:  # a row or column has one for each element
        axis, extent = x.index(given[0]), given[0]  # onnxruntime's quantizer says axis 0 of a row
    if given == (extent,):
        return (extent, *(1,) * (len(x) - axis - 1)), axis, 1
    # whatever a hostile file says, a block is no longer than its axis
    block = min(op.attr.integer("block_size", 0), max(1, extent))
    if block < 1 or given != (*x[:axis], -(-extent // block), *x[axis + 1 :]):
        raise op.invalid(f"input {i} of shape {given} does not match the input {x}")
    return given, axis, block


def _spread(op: OpContext, i: int, x: Shape) -> NDArray[np.generic]:
    """Return a known scale or zero point in a shape that broadcasts to x."""
    shape, axis, times = fitted(op, i, x)
    made = op.need_constant(i, "scale or zero point").reshape(shape)
    return made if times == 1 else np.repeat(made, times, axis).take(range(x[axis]), axis)


def _inputs(op: OpContext) -> Constant | None:
    """Return input 0 if it, its scale and zero point are known and the budget allows it."""
    x = op.value(0)
    if not isinstance(x, Constant) or op.constant(1) is None:
        return None
    if op.has(2) and op.constant(2) is None:
        return None
    return x if op.budget.has(4 * x.values.size, x.values.nbytes) else None
