"""Inverse of max pooling."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import positive
from dovetail_opset.importing.indices import narrowed
from dovetail_opset.importing.layout import reshaped

_CONSTANT = 0  # Pad's scheme


@ONNX.importer("MaxUnpool", versions=(9, 11, 22))
def max_unpool(op: OpContext) -> Tensor:
    """ScatterElements into zeros: the indices count through the whole output."""
    x, indices = op.tensor(0), op.tensor(1)
    if x.shape != indices.shape or len(x.shape) < 3:
        raise op.invalid(f"input {x.shape} and indices {indices.shape} do not match")
    shape = _shape(op, x.shape)
    op.reserve_constant(shape)
    zeros = op.static("zeros", np.zeros(math.prod(shape), np.float32), x.dtype)
    places = narrowed(op, "places", indices)
    count = (math.prod(x.shape),)
    flat = [zeros, reshaped(op, "flat", places, count), reshaped(op, "updates", x, count)]
    filled = op.step("filled", "ScatterElements", flat, axis=0)
    wanted = op.need_ints(2, "output shape") if op.has(2) else shape
    if wanted == shape:
        return op.emit("Reshape", [filled], spec=Spec(x.dtype, shape))
    if len(wanted) != len(shape) or any(w < n for w, n in zip(wanted, shape, strict=True)):
        raise op.invalid(f"output shape {wanted} is smaller than {shape}")
    amount = [(0, w - n) for w, n in zip(wanted, shape, strict=True)]
    whole = reshaped(op, "shaped", filled, shape)
    return op.emit("Pad", [whole], scheme=_CONSTANT, pad_amount=amount)


def _shape(op: OpContext, x: Shape) -> Shape:
    """Return the shape that the windows cover."""
    axes = len(x) - 2
    kernel, pads = (
        op.attr.integers("kernel_shape") or (),
        op.attr.integers("pads") or (0,) * 2 * axes,
    )
    if len(kernel) != axes or len(pads) != 2 * axes:
        raise op.invalid(f"kernel {kernel} and pads {pads} do not match the input {x}")
    strides = positive(op, "strides", axes)
    spatial = tuple(
        (n - 1) * stride + size - before - after
        for n, stride, size, before, after in zip(
            x[2:], strides, kernel, pads[:axes], pads[axes:], strict=True
        )
    )
    if min(spatial) < 1:
        raise op.invalid(f"pads {pads} remove all elements")
    return (*x[:2], *spatial)
