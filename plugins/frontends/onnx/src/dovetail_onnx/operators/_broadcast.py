"""Broadcasting before ONNX opset 7, which attributes enable and align to an axis."""

from __future__ import annotations

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_opset.importing import layout

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
    axis = op.attr.integer("axis", len(a.shape) - len(b.shape))
    return [a, layout.aligned(op, a, b, axis)]
