"""Columns of windows."""

from __future__ import annotations

import math

from dovetail.ir import Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import spatial_output
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import window_of


@ONNX.importer("Col2Im", versions=(18,))
def col2im(op: OpContext) -> Tensor:
    """Col2Im; one spatial dimension becomes two."""
    image = op.need_ints(1, "image shape")
    block = op.need_ints(2, "block shape")
    x = op.tensor(0)
    if len(x.shape) != 3:
        raise op.invalid(f"its input must have rank 3, but its shape is {x.shape}")
    if len(image) not in (1, 2):
        raise op.refuse(f"its image has {len(image)} dimensions; one or two can be converted")
    window = window_of(op, block, image)
    if min(map(min, window.pads)) < 0:
        raise op.refuse(f"its pads {window.pads} must not be negative")
    rows, size = x.shape[1], math.prod(block)
    if rows % size:
        raise op.invalid(f"its {rows} rows are no multiple of the {size} elements of a block")
    spatial = (1,) * (2 - len(image)) + image
    y = op.step(
        "channels_last",
        "Col2Im",
        [x],
        spec=Spec(x.dtype, (x.shape[0], *spatial, rows // size)),
        kernel_size=window.kernel,
        stride=window.strides,
        pad_amount=window.pads,
        dilation=window.dilations,
    )
    return spatial_output(op, y, len(image) + 2)
