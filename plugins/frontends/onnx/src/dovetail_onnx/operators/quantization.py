"""Quantized operators, in plain arithmetic: ONNX may compute scales and zero points at run time.

Products of integers are exact: in float32 as long as it holds every sum, else in float64.
"""

from __future__ import annotations

import math

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import PACKED_RANGES, dtype_of, element_type_name
from dovetail_onnx._registry import Value
from dovetail_onnx.operators._between import (
    are_columns,
    are_known,
    are_single,
    emit_stored,
    real_bias,
    real_input,
)
from dovetail_onnx.operators._layout import check_spatial, reshaped, spatial_output
from dovetail_onnx.operators._linear import fitted, known_integers, known_real
from dovetail_onnx.operators._parts import apply_operator, given
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES, check_filters, convolved
from dovetail_opset.perms import to_last

_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)
# Integers up to this are exact in float32; and the maximum difference of a byte and a zero point.
_EXACT = 2**24
_GREATEST_PRODUCT = 255 * 255
# Result types of QuantizeLinear; 4-bit ones are stored in bytes.
_QUANTIZED = (DType.INT_8, DType.UINT_8, DType.INT_16, DType.UINT_16)


@ONNX.importer("DequantizeLinear", versions=_VERSIONS)
def dequantize_linear(op: OpContext) -> Value:
    """Subtract the zero point and multiply by the scale; at import if all are constants."""
    target = _target(op, op.spec(1).dtype)
    known = known_real(op, target)
    if known is not None:
        return known
    x = op.tensor(0)
    difference = _cast(op, "real", x, DType.FLOAT_32)
    if op.has(2):
        zero = _cast(op, "zero", _spread(op, 2, x.shape), DType.FLOAT_32)
        difference = op.step("difference", "ElementWiseSubtract", [difference, zero])
    factor = _cast(op, "scale", _spread(op, 1, x.shape), DType.FLOAT_32)
    if target is DType.FLOAT_32:
        return op.emit("ElementWiseMultiply", [difference, factor])
    product = op.step("product", "ElementWiseMultiply", [difference, factor])
    return _emit_cast(op, product, target)


@ONNX.importer("QuantizeLinear", versions=_VERSIONS)
def quantize_linear(op: OpContext) -> Value:
    """Divide by the scale, round to even, add the zero point, and clip to the type."""
    target = op.spec(2).dtype if op.has(2) else _target(op, DType.UINT_8)
    if target not in _QUANTIZED:
        raise op.invalid(
            f"unsupported target type {target.name}; expected integers of at most 16 bits"
        )
    packed = op.packed(2) if op.has(2) else op.attr.integer("output_dtype", 0)
    limits = PACKED_RANGES.get(packed or 0) or target.stored_range()
    known = known_integers(op, target, limits)
    if known is not None:
        return known
    x, scale = op.tensor(0), _spread(op, 1, op.spec(0).shape)
    if x.dtype is not scale.dtype:
        x, scale = (_cast(op, "real", t, DType.FLOAT_32) for t in (x, scale))
    quotient = op.step("quotient", "ElementWiseDivide", [x, scale])
    zero = _spread(op, 2, x.shape) if op.has(2) else None
    return _emit_cast(op, _saturated(op, quotient, zero, limits), target)


@ONNX.importer("MatMulInteger", versions=(10,))
def matmul_integer(op: OpContext) -> Tensor:
    """MatMul of differences to the zero points."""
    dtype = _exact_type(math.prod(op.spec(0).shape[-1:]))
    a = _centred(op, 0, 2, dtype, _as_rows(op, 2, 0))
    b = _centred(op, 1, 3, dtype, None)
    return _emit_cast(op, op.step("product", "MatMul", [a, b]), DType.INT_32)


@ONNX.importer("QLinearMatMul", versions=(10, 21))
def qlinear_matmul(op: OpContext) -> Value:
    """MatMul of differences to the zero points, scaled, rounded, plus the zero point."""
    if are_single(op, 1, 2, 6, 7) and are_columns(op, 3, 4, 5):
        both = [real_input(op, 0, 1, 2), real_input(op, 3, 4, 5, -1)]
        return emit_stored(op, apply_operator(op, "real", "MatMul", both), 6, op.value(7))
    dtype = _exact_type(math.prod(op.spec(0).shape[-1:]))
    a = _centred(op, 0, 2, dtype, _as_rows(op, 2, 0))
    b = _centred(op, 3, 5, dtype, None)
    product = _cast(op, "sums", op.step("product", "MatMul", [a, b]), DType.FLOAT_32)
    left = reshaped(op, "left", op.tensor(1), _as_rows(op, 1, 0) or op.spec(1).shape)
    scaled = _rescaled(op, product, left, op.tensor(4), op.tensor(6))
    zero = op.tensor(7)
    return _emit_cast(op, _saturated(op, scaled, zero, zero.dtype.stored_range()), zero.dtype)


@ONNX.importer("ConvInteger", versions=(10,))
def conv_integer(op: OpContext) -> Tensor:
    """Emit a convolution of differences to the zero points."""
    y = _convolved(op, 0, 1, 2, 3, None)
    return spatial_output(op, _cast(op, "sums", y, DType.INT_32), len(op.spec(0).shape))


@ONNX.importer("QLinearConv", versions=(10,))
def qlinear_conv(op: OpContext) -> Value:
    """Emit a convolution of differences to the zero points, quantized again."""
    if are_single(op, 1, 2, 6, 7) and are_known(op, 3, 4, 5, 8):
        inputs = [real_input(op, 0, 1, 2), real_input(op, 3, 4, 5, 0), real_bias(op, 8, 1, 4)]
        y = apply_operator(op, "real", "Conv", inputs, **given(op, CONV_ATTRIBUTES))
        return emit_stored(op, y, 6, op.value(7))
    y = _convolved(op, 0, 3, 2, 5, 8)
    scaled = _rescaled(
        op, _cast(op, "sums", y, DType.FLOAT_32), op.tensor(1), op.tensor(4), op.tensor(6)
    )
    zero = op.tensor(7)
    saturated = _saturated(op, scaled, zero, zero.dtype.stored_range())
    stored = _cast(op, "stored", saturated, zero.dtype)
    return spatial_output(op, stored, len(op.spec(0).shape))


def _convolved(op: OpContext, x: int, w: int, x_zero: int, w_zero: int, bias: int | None) -> Tensor:
    """Return (n, ..., c) of sums, from the inputs of these numbers."""
    image, filters = op.spec(x).shape, op.spec(w).shape
    check_spatial(op, len(image))
    check_filters(op, image, filters)
    dtype = _exact_type(math.prod(filters[1:]))
    zeros = op.spec(w_zero).shape if op.has(w_zero) else ()
    by_filter = (*zeros, *(1,) * (len(filters) - 1)) if zeros else None
    centred = _centred(op, x, x_zero, dtype, None)
    weights = _centred(op, w, w_zero, dtype, by_filter)
    last = op.step("image", "Transpose", [centred], perm=to_last(len(image)))
    taps = op.step("filters", "Transpose", [weights], perm=(*range(2, len(filters)), 1, 0))
    if len(image) == 3:  # one dimension becomes two
        last = reshaped(op, "rows", last, (last.shape[0], 1, *last.shape[1:]))
        taps = reshaped(op, "taps", taps, (1, *taps.shape))
    addend = None
    if bias is not None and op.has(bias):
        addend = _cast(op, "bias", op.tensor(bias), dtype)
    return convolved(op, last, taps, addend, filters, image)


def _exact_type(terms: int) -> DType:
    """Return the float type that holds sums of as many products of two bytes exactly."""
    return DType.FLOAT_32 if terms * _GREATEST_PRODUCT <= _EXACT else DType.FLOAT_64


def _centred(op: OpContext, i: int, zero: int, dtype: DType, shape: Shape | None) -> Tensor:
    """Return an input minus its reshaped zero point, in a float type."""
    x = _cast(op, f"real{i}", op.tensor(i), dtype)
    if not op.has(zero):
        return x
    offset = reshaped(op, f"offset{i}", op.tensor(zero), shape or op.spec(zero).shape)
    return op.step(f"centred{i}", "ElementWiseSubtract", [x, _cast(op, f"zero{i}", offset, dtype)])


def _as_rows(op: OpContext, i: int, matrix: int) -> Shape | None:
    """Return the shape of a vector with one number for each row of a matrix, or None."""
    if not op.has(i) or len(op.spec(i).shape) != 1 or len(op.spec(matrix).shape) < 2:
        return None
    return (*op.spec(i).shape, 1)


def _rescaled(op: OpContext, sums: Tensor, a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """Return sums times the inputs' scales, over the output's."""
    a, b, y = (_cast(op, "scale", t, DType.FLOAT_32) for t in (a, b, y))
    both = op.step("scales", "ElementWiseMultiply", [a, b])
    real = op.step("scaled", "ElementWiseMultiply", [sums, both])
    return op.step("quotient", "ElementWiseDivide", [real, y])


def _saturated(op: OpContext, real: Tensor, zero: Tensor | None, limits: tuple[int, int]) -> Tensor:
    """Return numbers rounded, plus the zero point, within the limits of a type; in float32."""
    result = _cast(op, "whole", op.step("rounded", "ElementWiseRound", [real]), DType.FLOAT_32)
    if zero is not None:
        offset = _cast(op, "zero", zero, DType.FLOAT_32)
        result = op.step("shifted", "ElementWiseAdd", [result, offset])
    least, greatest = map(float, limits)
    return op.step("saturated", "ReluMinMax", [result], min_value=least, max_value=greatest)


def _target(op: OpContext, default: DType) -> DType:
    code = op.attr.integer("output_dtype", 0)
    found = dtype_of(code) if code else default
    if found is None:
        raise op.unsupported(f"unsupported output type {element_type_name(code)}")
    return found


def _spread(op: OpContext, i: int, x: Shape) -> Tensor:
    """Return a scale or zero point in a shape that broadcasts to x."""
    shape, axis, times = fitted(op, i, x)
    given = op.tensor(i)
    if times == 1:
        return reshaped(op, f"input{i}", given, shape)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    column = reshaped(op, f"column{i}", given, (*before, 1, *after))
    multiples = [times if a == axis + 1 else 1 for a in range(len(x) + 1)]
    tiled = op.step(f"tiled{i}", "Tile", [column], multiples=multiples)
    whole = reshaped(op, f"blocks{i}", tiled, (*shape[:axis], shape[axis] * times, *after))
    if whole.shape == x:
        return whole
    return op.step(f"cut{i}", "StridedSlice", [whole], ranges=[(0, n, 1) for n in x])


def _cast(op: OpContext, suffix: str, x: Tensor, dtype: DType) -> Tensor:
    if x.dtype is dtype:
        return x
    kind = "Convert" if DType.BFLOAT_16 in (x.dtype, dtype) else "Cast"
    return op.step(suffix, kind, [x], spec=Spec(dtype, x.shape))


def _emit_cast(op: OpContext, x: Tensor, dtype: DType) -> Tensor:
    kind = "Convert" if DType.BFLOAT_16 in (x.dtype, dtype) else "Cast"
    return op.emit(kind, [x], spec=Spec(dtype, x.shape))
