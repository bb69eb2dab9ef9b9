"""PyTorch's fake quantization operators, which its exporter left unchanged."""

from __future__ import annotations

import numpy as np

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers
from dovetail_onnx.operators._fake import Levels, fake_quantized, finite
from dovetail_opset.importing.constant import Value

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
    """Fake quantization between two integers: (x, scale, zero point, [axis,] minimum, maximum)."""
    name = op.attr.text("operator", "")
    if name not in _FAKE:
        raise op.unsupported(
            f"unsupported torch operator '{name}'; only fake quantization can be converted",
            hint="export the model with a newer opset, or register a symbolic function for it",
        )
    shape, first = op.spec(0).shape, 4 if _FAKE[name] else 3
    scale, zero = finite(op, 1, "scale").reshape(-1), finite(op, 2, "zero point").reshape(-1)
    if scale.size != zero.size or not (scale > 0).all():
        raise op.invalid("scales must be positive, with a zero point for each")
    spread: tuple[int, ...] = ()
    if _FAKE[name]:
        axis = op.axis(_whole(op, 3, "axis"), len(shape))
        if scale.size != shape[axis]:
            raise op.invalid(f"{scale.size} scales do not match axis {axis} of {shape}")
        spread = (-1, *(1,) * (len(shape) - axis - 1))
    elif scale.size != 1:
        raise op.invalid(f"expected one scale, got {scale.size}")
    low, high = (_whole(op, first + i, "range") for i in (0, 1))
    if not -(2**15) <= low < high < 2**16:
        raise op.unsupported(f"unsupported range {low} to {high}; the maximum is 16 bits")
    scale, zero = scale.reshape(spread), np.rint(zero).reshape(spread)
    return fake_quantized(op, Levels(scale, zero, low, high))


def _whole(op: OpContext, i: int, what: str) -> int:
    found = float(op.need_number(i, what))
    if not found.is_integer():  # which nan and inf are not
        raise op.invalid(f"{what} must be a whole number, got {found:g}")
    return int(found)
