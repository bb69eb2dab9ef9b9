"""QuantizeLinear and DequantizeLinear of what is known at import, computed then.

ONNX's own evaluator lacks some of their versions, and differs in others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, DType, Shape
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import Constant
from dovetail_onnx._grids import grid_of, kind_of

_REAL = (DType.FLOAT_32, DType.FLOAT_16)


def known_real(op: OpContext, target: DType) -> Constant | None:
    """Gives what a DequantizeLinear makes of constants, with its grid; None where it may not yet.

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
    points = np.zeros((), wide) if zero is None else spread(op, zero, x.shape).astype(wide)
    difference = np.subtract(x.values, points, dtype=wide)
    factor = spread(op, scale, x.shape).astype(np.float32)
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


def _of_each(zero: Array | None, shape: Shape) -> Array:
    """Gives the zero point of each scale: none is 0, and one may be that of all."""
    if zero is None:
        return np.zeros(shape, np.int64)
    return np.broadcast_to(zero.reshape(()), shape) if zero.size == 1 else np.asarray(zero)


def known_integers(op: OpContext, target: DType, limits: tuple[int, int]) -> Constant | None:
    """Gives what a QuantizeLinear makes of constants; None where it may not yet.

    Args:
        op: The node.
        target: The type of its output.
        limits: Its least and its greatest integer.
    """
    x = _inputs(op)
    if x is None or x.dtype is not DType.FLOAT_32 or op.spec(1).dtype is not DType.FLOAT_32:
        return None
    scale, zero = op.need_constant(1, "scale"), op.constant(2)
    with np.errstate(all="ignore"):  # inf and nan are results
        whole = np.rint(x.values / spread(op, scale, x.shape))
    if zero is not None:
        whole = whole + spread(op, zero, x.shape).astype(np.float32)
    if np.isnan(whole).any():
        return None
    values = np.clip(whole, *limits).astype(target.storage)
    return Constant(values, target, op.node.outputs[0])


def spread(op: OpContext, given: Array, x: Shape) -> NDArray[np.generic]:
    """Gives a known scale or zero point in a shape that goes with the elements of x.

    Raises:
        FrontendError: It fits neither x, nor an axis, nor blocks of one.
    """
    if math.prod(given.shape) == 1:
        return given.reshape(())
    axis = op.axis(op.attr.integer("axis", 1), len(x))
    if given.ndim == 1 and given.shape[0] == x[axis]:
        return given.reshape(-1, *(1,) * (len(x) - axis - 1))
    block, rest = op.attr.integer("block_size", 0), (*x[:axis], *x[axis + 1 :])
    fits = given.ndim == len(x) and rest == (*given.shape[:axis], *given.shape[axis + 1 :])
    if block < 1 or not fits or -(-x[axis] // block) != given.shape[axis]:
        raise op.invalid(f"its scales or zero points of shape {given.shape} do not fit {x}")
    return np.repeat(given, block, axis).take(range(x[axis]), axis)


def _inputs(op: OpContext) -> Constant | None:
    """Gives the first input if it and what goes with it is known, and there is room."""
    x = op.value(0)
    if not isinstance(x, Constant) or op.constant(1) is None:
        return None
    if op.has(2) and op.constant(2) is None:
        return None
    return x if op.budget.has(4 * x.values.size, x.values.nbytes) else None
