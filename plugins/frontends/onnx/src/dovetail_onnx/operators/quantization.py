"""Quantized operators: Quantize and Dequantize where scales and zero points are known.

ONNX may compute them at run time: then they are plain arithmetic, and so are products. Products of
integers are exact: in float32 as long as it holds every sum. Longer sums are those of parts, added
as integers, or for convolutions in float64.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator

import numpy as np

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import PACKED_RANGES, dtype_of, element_type_name
from dovetail_onnx.operators._between import (
    are_columns,
    are_known,
    are_single,
    emit_stored,
    real_bias,
    real_input,
)
from dovetail_onnx.operators._formula import Expr, clip, operand, rounded
from dovetail_onnx.operators._linear import NARROW, fitted, known_grid, known_integers, known_real
from dovetail_onnx.operators._parts import given
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES, check_filters, convolved
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import check_spatial, spatial_output
from dovetail_opset.perms import to_last

_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)
# Integers up to this are exact in float32; and the maximum difference of a byte and a zero point.
_EXACT = 2**24
_GREATEST_LEVEL = 255
_GREATEST_PRODUCT = _GREATEST_LEVEL**2


@ONNX.importer("DequantizeLinear", versions=_VERSIONS)
def dequantize_linear(op: OpContext) -> Value:
    """Dequantize, or arithmetic if the IR has no such encoding; at import if all are constants."""
    target = _target(op, op.spec(1).dtype)
    known = known_real(op, target)
    if known is not None:
        return known
    grid = known_grid(op, op.spec(0).dtype, op.packed(0))
    if grid is not None:
        return op.emit("Dequantize", [_on_grid(op, grid)], spec=Spec(target, grid.shape))
    x = operand(op, 0)
    difference = x.cast(DType.FLOAT_32)
    if op.has(2):
        difference -= _spread(op, 2, x.shape).cast(DType.FLOAT_32)
    real = difference * _spread(op, 1, x.shape).cast(DType.FLOAT_32)
    return (real if target is DType.FLOAT_32 else real.cast(target)).emit()


@ONNX.importer("QuantizeLinear", versions=_VERSIONS)
def quantize_linear(op: OpContext) -> Value:
    """Quantize, or arithmetic if the IR has no such encoding; at import if all are constants."""
    target = op.spec(2).dtype if op.has(2) else _target(op, DType.UINT_8)
    if target not in NARROW:
        raise op.invalid(
            f"unsupported target type {target.name}; expected integers of at most 16 bits"
        )
    code = op.packed(2) if op.has(2) else op.attr.integer("output_dtype", 0)
    packed = code if code in PACKED_RANGES else None
    grid = known_grid(op, target, packed)
    if grid is not None:
        known = known_integers(op, target, grid)
        if known is not None:
            return known
        real = operand(op, 0)
        real = real if real.dtype.is_float else real.cast(DType.FLOAT_32)
        stored = op.step("stored", "Quantize", [real.tensor], spec=grid)
        return op.emit("Cast", [stored], spec=Spec(target, grid.shape))
    x = operand(op, 0).cast(DType.FLOAT_32)
    scale = _spread(op, 1, x.shape).cast(DType.FLOAT_32)
    zero = _spread(op, 2, x.shape) if op.has(2) else None
    limits = target.stored_range() if packed is None else PACKED_RANGES[packed]
    return _saturated(x / scale, zero, limits).cast(target).emit()


@ONNX.importer("MatMulInteger", versions=(10,))
def matmul_integer(op: OpContext) -> Value:
    """MatMul of differences to the zero points."""
    return _product(op, (0, 2), (1, 3), DType.INT_32).emit()


@ONNX.importer("QLinearMatMul", versions=(10, 21))
def qlinear_matmul(op: OpContext) -> Value:
    """MatMul of differences to the zero points, scaled, rounded, plus the zero point."""
    if are_single(op, 1, 2, 6, 7) and are_columns(op, 3, 4, 5):
        real = real_input(op, 0, 1, 2) @ real_input(op, 3, 4, 5, -1)
        return emit_stored(op, real, 6, op.value(7))
    left = operand(op, 1).reshaped(_as_rows(op, 1, 0) or op.spec(1).shape)
    return _requantized(op, _product(op, (0, 2), (3, 5), DType.FLOAT_32), left).emit()


def _product(op: OpContext, left: tuple[int, int], right: tuple[int, int], dtype: DType) -> Expr:
    """Return the product of two inputs, each given with its zero point, in a type."""
    depth, rank = math.prod(op.spec(left[0]).shape[-1:]), len(op.spec(right[0]).shape)
    along = max(rank - 2, 0)  # the axis of the second input that products are added along
    is_short = _exact_type(op, *right, depth, (along,)) is DType.FLOAT_32
    a = _centered(op, *left, DType.FLOAT_32, _as_rows(op, left[1], left[0]))
    b = _centered(op, *right, DType.FLOAT_32, None)
    if is_short:
        return (a @ b).cast(dtype)
    parts = -(-depth // (_EXACT // _GREATEST_PRODUCT))
    ends = [depth * i // parts for i in range(parts + 1)]
    sums = [
        (_part(a, len(a.shape) - 1, *part) @ _part(b, along, *part)).cast(DType.INT_32)
        for part in itertools.pairwise(ends)
    ]
    total = functools.reduce(operator.add, sums)
    return total if dtype is DType.INT_32 else total.cast(dtype)


def _part(x: Expr, axis: int, start: int, end: int) -> Expr:
    """Return the elements of an axis from a first one to before a last one."""
    ranges = [(start, end, 1) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)]
    return x.step("StridedSlice", ranges=ranges)


@ONNX.importer("ConvInteger", versions=(10,))
def conv_integer(op: OpContext) -> Value:
    """Emit a convolution of differences to the zero points."""
    y = _convolved(op, 0, 1, 2, 3, None)
    return spatial_output(op, y.cast(DType.INT_32).tensor, len(op.spec(0).shape))


@ONNX.importer("QLinearConv", versions=(10,))
def qlinear_conv(op: OpContext) -> Value:
    """Emit a convolution of differences to the zero points, quantized again."""
    if are_single(op, 1, 2, 6, 7) and are_known(op, 3, 4, 5, 8):
        x, filters = real_input(op, 0, 1, 2), real_input(op, 3, 4, 5, 0)
        y = x.apply("Conv", filters, real_bias(op, 8, 1, 4), **given(op, CONV_ATTRIBUTES))
        return emit_stored(op, y, 6, op.value(7))
    stored = _requantized(op, _convolved(op, 0, 3, 2, 5, 8), operand(op, 1))
    return spatial_output(op, stored.tensor, len(op.spec(0).shape))


def _convolved(op: OpContext, x: int, w: int, x_zero: int, w_zero: int, bias: int | None) -> Expr:
    """Return (n, ..., c) of sums, from the inputs of these numbers."""
    image, filters = op.spec(x).shape, op.spec(w).shape
    check_spatial(op, len(image))
    check_filters(op, image, filters)
    terms = math.prod(filters[1:])
    dtype = _exact_type(op, w, w_zero, terms, tuple(range(1, len(filters))))
    zeros = op.spec(w_zero).shape if op.has(w_zero) else ()
    by_filter = (*zeros, *(1,) * (len(filters) - 1)) if zeros else None
    centered = _centered(op, x, x_zero, dtype, None)
    weights = _centered(op, w, w_zero, dtype, by_filter)
    last = centered.step("Transpose", perm=to_last(len(image)))
    taps = weights.step("Transpose", perm=(*range(2, len(filters)), 1, 0))
    if len(image) == 3:  # one dimension becomes two
        last = last.reshaped((last.shape[0], 1, *last.shape[1:]))
        taps = taps.reshaped((1, *taps.shape))
    addend = None
    if bias is not None and op.has(bias):
        addend = operand(op, bias).cast(dtype).tensor
    return Expr(op, convolved(op, last.tensor, taps.tensor, addend, filters, image))


def _exact_type(op: OpContext, w: int, w_zero: int, terms: int, axes: Shape) -> DType:
    """Return the float type that holds all sums of products of two bytes exactly.

    Args:
        op: The node.
        w: The input of the weights.
        w_zero: That of their zero point.
        terms: Number of products of a sum.
        axes: Axes of the weights along which products are added.
    """
    if terms * _GREATEST_PRODUCT <= _EXACT:
        return DType.FLOAT_32
    weights, zeros = op.constant(w), op.constant(w_zero) if op.has(w_zero) else None
    if weights is None or (op.has(w_zero) and (zeros is None or zeros.size != 1)):
        return DType.FLOAT_64
    zero = 0 if zeros is None else int(zeros.reshape(-1)[0])
    greatest = np.abs(weights.astype(np.int64) - zero).sum(axis=axes).max(initial=0)
    return DType.FLOAT_32 if _GREATEST_LEVEL * int(greatest) <= _EXACT else DType.FLOAT_64


def _centered(op: OpContext, i: int, zero: int, dtype: DType, shape: Shape | None) -> Expr:
    """Return an input minus its reshaped zero point, in a float type."""
    x = operand(op, i).cast(dtype)
    if not op.has(zero):
        return x
    return x - operand(op, zero).reshaped(shape or op.spec(zero).shape).cast(dtype)


def _as_rows(op: OpContext, i: int, matrix: int) -> Shape | None:
    """Return the shape of a vector with one number for each row of a matrix, or None."""
    if not op.has(i) or len(op.spec(i).shape) != 1 or len(op.spec(matrix).shape) < 2:
        return None
    return (*op.spec(i).shape, 1)


def _requantized(op: OpContext, sums: Expr, left: Expr) -> Expr:
    """Return sums times the inputs' scales, over the output's, quantized with input 7 as zero."""
    a, b, y = (scale.cast(DType.FLOAT_32) for scale in (left, operand(op, 4), operand(op, 6)))
    zero = operand(op, 7)
    real = sums.cast(DType.FLOAT_32) * (a * b) / y
    return _saturated(real, zero, zero.dtype.stored_range()).cast(zero.dtype)


def _saturated(real: Expr, zero: Expr | None, limits: tuple[int, int]) -> Expr:
    """Return float32 numbers rounded, plus the zero point, within the limits of a type."""
    whole = rounded(real)
    return clip(whole if zero is None else whole + zero.cast(DType.FLOAT_32), *limits)


def _on_grid(op: OpContext, grid: Spec) -> Tensor:
    """Return a node's integers as fixed-point numbers: those that a Quantize made, or a Cast."""
    x = op.tensor(0)
    for node in (op.graph.producer(x), *op.graph.consumers(x)):
        if node is not None and node.op_type == "Cast":
            for same in (node.inputs[0], node.outputs[0]):
                if same is not None and same.spec == grid:
                    return same
    return op.step("stored", "Cast", [x], spec=grid)


def _target(op: OpContext, default: DType) -> DType:
    code = op.attr.integer("output_dtype", 0)
    found = dtype_of(code) if code else default
    if found is None:
        raise op.unsupported(f"unsupported output type {element_type_name(code)}")
    return found


def _spread(op: OpContext, i: int, x: Shape) -> Expr:
    """Return a scale or zero point in a shape that broadcasts to x."""
    shape, axis, times = fitted(op, i, x)
    if times == 1:
        return operand(op, i).reshaped(shape)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    multiples = [times if a == axis + 1 else 1 for a in range(len(x) + 1)]
    tiled = operand(op, i).reshaped((*before, 1, *after)).step("Tile", multiples=multiples)
    whole = tiled.reshaped((*shape[:axis], shape[axis] * times, *after))
    if whole.shape == x:
        return whole
    return whole.step("StridedSlice", ranges=[(0, n, 1) for n in x])
