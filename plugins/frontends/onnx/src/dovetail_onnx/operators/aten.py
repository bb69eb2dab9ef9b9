"""Fake quantization of torch that its exporter left as it was, with operators of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers, Value
from dovetail_onnx.operators._fake import Levels, fake_quantized

ATEN = Importers("org.pytorch.aten")
# By the operator that the node names: whether there is an axis before the ends of the range.
_FAKE = {
    "fake_quantize_per_tensor_affine": False,
    "fake_quantize_per_channel_affine": True,
    "_fake_quantize_learnable_per_tensor_affine": False,
    "_fake_quantize_learnable_per_channel_affine": True,
}


@ATEN.importer("ATen", versions=(1,))
def aten(op: OpContext) -> Value:
    """Numbers on a grid between two integers: (x, scale, zero point, [axis,] least, greatest)."""
    name = op.attr.text("operator", "")
    if name not in _FAKE:
        raise op.refuse(
            f"it is torch's '{name}'; only fake quantization can be converted",
            hint="export the model with a newer opset, or register a symbolic function for it",
        )
    shape, first = op.spec(0).shape, 4 if _FAKE[name] else 3
    scale, zero = _numbers(op, 1, "scale"), np.rint(_numbers(op, 2, "zero point"))
    if scale.size != zero.size or not (scale > 0).all():
        raise op.invalid("its scales must be positive, with a zero point for each")
    spread: tuple[int, ...] = ()
    if _FAKE[name]:
        (axis,) = op.need_ints(3, "axis")
        axis = op.axis(axis, len(shape))
        if scale.size != shape[axis]:
            raise op.invalid(f"it has {scale.size} scales for the axis {axis} of {shape}")
        spread = (-1, *(1,) * (len(shape) - axis - 1))
    low, high = (int(op.need_number(first + i, "range")) for i in (0, 1))
    if not -(2**15) <= low < high < 2**16:
        raise op.refuse(f"its integers go from {low} to {high}; at most 16 bits can be converted")
    return fake_quantized(op, Levels(scale.reshape(spread), zero.reshape(spread), low, high))


def _numbers(op: OpContext, i: int, what: str) -> NDArray[np.float32]:
    found = np.asarray(op.need_constant(i, what), np.float32).reshape(-1)
    if not np.isfinite(found).all() or not found.size:
        raise op.invalid(f"its {what} is not finite")
    return found
