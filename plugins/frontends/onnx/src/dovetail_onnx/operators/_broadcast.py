"""Broadcasting before ONNX opset 7, which attributes enable and align to an axis."""

from __future__ import annotations

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import reshaped

# The first version of every operator of two tensors that broadcasts as NumPy does.
_FIRST = 7


def aligned(op: OpContext) -> list[Tensor]:
    """Return an operator's two inputs, the second reshaped so that it broadcasts as NumPy does.

    Raises:
        FrontendError: The axis does not fit the first one's shape.
    """
    a, b = op.tensor(0), op.tensor(1)
    if op.version >= _FIRST or not op.attr.integer("broadcast", 0):
        return [a, b]
    room = len(a.shape) - len(b.shape)
    axis = op.attr.integer("axis", room)
    axis += len(a.shape) if axis < 0 else 0
    if not 0 <= axis <= room:
        raise op.invalid(f"input {b.shape} cannot be broadcast from axis {axis} of {a.shape}")
    return [a, reshaped(op, "aligned", b, (*b.shape, *(1,) * (room - axis)))]
