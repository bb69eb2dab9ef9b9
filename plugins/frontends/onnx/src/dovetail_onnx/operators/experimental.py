"""Operators that were experimental in ONNX up to opset 9; ONNX Runtime still runs them.

Style transfer networks and converted Caffe2 models of that time use them. They are in ONNX's own
domain, but the installed onnx has no schemas of them: all attributes are checked here.
Source: contrib_ops of ONNX Runtime; onnx 1.4, docs/Operators.md.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, tanh, value_of
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

# Version of every operator here, by name.
EXPERIMENTAL = {
    "Affine": 1,
    "Crop": 1,
    "GivenTensorFill": 1,
    "ImageScaler": 1,
    "ParametricSoftplus": 1,
    "ScaledTanh": 1,
    "ThresholdedRelu": 1,
}


@ONNX.importer("Affine", versions=(1,))
def affine(op: OpContext) -> Value:
    """Compute alpha * x + beta."""
    scaled = _scaled(value_of(op, 0), op.attr.number("alpha", 1.0))
    return (scaled + op.attr.number("beta", 0.0)).emit()


@ONNX.importer("ScaledTanh", versions=(1,))
def scaled_tanh(op: OpContext) -> Value:
    """Compute alpha * tanh(beta * x)."""
    inner = _scaled(value_of(op, 0), _needed(op, "beta"))
    return (tanh(inner) * _needed(op, "alpha")).emit()


@ONNX.importer("ParametricSoftplus", versions=(1,))
def parametric_softplus(op: OpContext) -> Value:
    """Compute alpha * log(1 + exp(beta * x))."""
    inner = _scaled(value_of(op, 0), _needed(op, "beta"))
    return (inner.apply("Softplus") * _needed(op, "alpha")).emit()


@ONNX.importer("ImageScaler", versions=(1,))
def image_scaler(op: OpContext) -> Value:
    """Compute scale * x + bias, one bias for each channel of (n, c, h, w)."""
    x, bias = op.spec(0), op.attr.numbers("bias") or ()
    if len(x.shape) != 4 or len(bias) != x.shape[1]:
        raise op.invalid(
            f"{len(bias)} biases for an input of shape {x.shape}; it must be (n, c, h, w), with "
            "one bias for each channel"
        )
    scaled = _scaled(value_of(op, 0), op.attr.number("scale", 1.0))
    by_channel: Array = np.reshape(np.asarray(bias, np.float32), (-1, 1, 1))
    return (scaled + by_channel).emit()


@ONNX.importer("Crop", versions=(1,))
def crop(op: OpContext) -> Tensor:
    """Slice (n, c, h, w) by a border (left, top, right, bottom), or by left, top and a scale."""
    shape, border = op.spec(0).shape, op.attr.integers("border") or ()
    scale = op.attr.integers("scale")
    if len(shape) != 4 or len(border) != 4 or len(scale or (0, 0)) != 2:
        raise op.invalid(
            f"border {border} and scale {scale} do not match an input of shape {shape}; they must "
            "have 4 and 2 elements, the input must be (n, c, h, w)"
        )
    left, top, right, bottom = border
    height, width = shape[2:]
    ends = (height - bottom, width - right) if scale is None else (top + scale[0], left + scale[1])
    ranges = [(0, shape[0], 1), (0, shape[1], 1), (top, ends[0], 1), (left, ends[1], 1)]
    if not all(
        0 <= begin < end <= n for (begin, end, _), n in zip(ranges[2:], shape[2:], strict=True)
    ):
        raise op.invalid(f"border {border} and scale {scale} leave nothing of shape {shape}")
    return op.emit("StridedSlice", [op.tensor(0)], ranges=ranges)


@ONNX.importer("GivenTensorFill", versions=(1,))
def given_tensor_fill(op: OpContext) -> Array:
    """Return the attribute `values` in the shape of the attribute `shape` or the input."""
    values = np.asarray(op.attr.numbers("values") or (), np.float32)
    shape = op.attr.integers("shape")
    if shape is None and op.has(0):
        by_value = op.attr.integer("input_as_shape", 0)
        shape = op.need_ints(0, "shape") if by_value else op.spec(0).shape
    shape = (*(shape or ()), *(op.attr.integers("extra_shape") or ()))
    try:
        return values.reshape(shape)
    except ValueError as error:
        raise op.invalid(f"{values.size} values do not fill the shape {shape}") from error


def _scaled(x: Expr, factor: float) -> Expr:
    """Return the product with a number; for the factor 1 the value itself."""
    return x if factor == 1 else x * factor


def _needed(op: OpContext, name: str) -> float:
    if name not in op.attr:
        raise op.invalid(f"missing attribute {name}")
    return op.attr.number(name, 0.0)
