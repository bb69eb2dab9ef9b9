"""The discrete Fourier transform, as a product with its matrix."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.layout import reshaped

# Making the matrix takes that many arrays of its size, at four bytes an element.
_TABLES = 15


@ONNX.importer("DFT", versions=(17, 20))
def dft(op: OpContext) -> Tensor:
    """Emit a MatMul in float64: sums of float32 would leave errors where the transform is 0."""
    x = op.tensor(0)
    rank = len(x.shape)
    axis = op.axis(_axis(op), rank)
    if rank < 2 or x.shape[-1] not in (1, 2) or axis == rank - 1:
        raise op.invalid(f"input {x.shape} must be (..., 1) or (..., 2), and the axis not the last")
    inverse, onesided = (bool(op.attr.integer(name, 0)) for name in ("inverse", "onesided"))
    if onesided and (x.shape[-1] == 2) != inverse:
        raise op.unsupported("onesided needs a real signal, or half of a spectrum for the inverse")
    length = _length(op, x.shape[axis], half=inverse and onesided)
    op.reserve_constant(
        (_TABLES, x.shape[axis], length if inverse or not onesided else length // 2 + 1)
    )
    matrix = _matrix(x.shape[axis], x.shape[-1], length, inverse=inverse, onesided=onesided)
    order = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    moved = op.step("moved", "Transpose", [x], perm=order)
    kept = moved.shape[:-2]
    rows = reshaped(op, "rows", moved, (math.prod(kept), matrix.shape[0]))
    wide = op.step("wide", "Cast", [rows], spec=Spec(DType.FLOAT_64, rows.shape))
    product = op.step("product", "MatMul", [wide, op.static("matrix", matrix, DType.FLOAT_64)])
    narrow = op.step("narrow", "Cast", [product], spec=Spec(x.dtype, product.shape))
    parts = 1 if inverse and onesided else 2
    apart = reshaped(op, "apart", narrow, (*kept, matrix.shape[1] // parts, parts))
    return op.emit("Transpose", [apart], perm=tuple(order.index(a) for a in range(rank)))


def _axis(op: OpContext) -> int:
    if op.version < 20:
        return op.attr.integer("axis", 1)
    given = op.need_ints(2, "axis") if op.has(2) else (-2,)
    if len(given) != 1:
        raise op.invalid(f"axis must be a single number, got {given}")
    return given[0]


def _length(op: OpContext, extent: int, *, half: bool) -> int:
    if not op.has(1):
        return 2 * (extent - 1) if half else extent
    given = op.need_ints(1, "length")
    if len(given) != 1 or given[0] < 1:
        raise op.invalid(f"length must be a single positive number, got {given}")
    return given[0]


def _matrix(extent: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Array:
    """Return (size * parts, bins * parts): the factor from each real number to each of the result.

    Elements beyond the length are left out; missing ones count as 0.
    """
    bins = length if inverse or not onesided else length // 2 + 1
    turns = np.outer(np.arange(extent), np.arange(bins)) % length
    angles = (2 if inverse else -2) * np.pi * turns / length
    factor = np.ones((extent, 1))
    if inverse:
        factor = factor / length
    if inverse and onesided:  # the other half are conjugates: it adds the same once more
        twice = (np.arange(extent) > 0) & (2 * np.arange(extent) < length)
        factor = factor * np.where(twice, 2, 1)[:, None]
    factor[length if not (inverse and onesided) else length // 2 + 1 :] = 0
    cos, sin = np.cos(angles) * factor, np.sin(angles) * factor
    if inverse and onesided:
        return np.stack([cos, -sin], 1).reshape(extent * 2, bins)
    real = np.stack([cos, sin], -1)
    both = np.stack([real, np.stack([-sin, cos], -1)], 1)[:, :parts]
    return both.reshape(extent * parts, bins * 2)
