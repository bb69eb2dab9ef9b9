"""Convolutions."""

from __future__ import annotations

from dovetail.errors import counted
from dovetail.ir import Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._grids import moved, reshaped_grid
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import window_of
from dovetail_opset.importing.layout import check_spatial, reshaped, spatial_input, spatial_output
from dovetail_opset.importing.windows import cropped

# Attributes of Conv, which operators that extend it have too.
CONV_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@ONNX.importer("Conv", versions=(1, 11, 22))
def conv(op: OpContext) -> Tensor:
    """Conv2d or Conv3d, or DepthWiseConv2d if every channel is a separate group.

    One dimension becomes two: none of QNN's backends implements Conv1d.
    """
    x, weight = op.spec(0).shape, op.spec(1).shape
    check_spatial(op, len(x))
    check_filters(op, x, weight)
    y = convolved(op, spatial_input(op), _filters(op, len(weight)), op.optional(2), weight, x)
    return spatial_output(op, y, len(x))


def check_filters(op: OpContext, x: Shape, weight: Shape) -> None:
    """Check that a node's filters, (o, i, ...), fit its input, (n, c, ...), and attributes.

    Raises:
        FrontendError: They do not match.
    """
    if len(weight) != len(x):
        raise op.invalid(f"filters {weight} do not match the input {x}")
    if (stated := op.attr.integers("kernel_shape")) and stated != weight[2:]:
        raise op.invalid(f"kernel_shape {stated} contradicts the filters {weight}")
    group = op.attr.integer("group", 1)
    if group < 1 or x[1] != weight[1] * group or weight[0] % group:
        raise op.invalid(
            f"filters {weight} in {counted(group, 'group')} do not match an input of "
            f"{counted(x[1], 'channel')}"
        )


def convolved(
    op: OpContext, image: Tensor, filters: Tensor, bias: Tensor | None, weight: Shape, x: Shape
) -> Tensor:
    """Return the convolution that a node's attributes describe, (n, ..., c).

    Args:
        op: The node.
        image: (n, ..., c), two spatial dimensions at least.
        filters: (..., i, o), as many.
        bias: (o,), None for none.
        weight: The filters' shape in the model.
        x: The input's shape in the model.
    """
    group = op.attr.integer("group", 1)
    image, window = cropped(op, image, window_of(op, weight[2:], x[2:]))
    axes = len(window.kernel)
    depthwise = group == x[1] and group > 1 and axes == 2
    return op.step(
        "channels_last",
        "DepthWiseConv2d" if depthwise else f"Conv{axes}d",
        [image, filters, bias],
        stride=window.strides,
        pad_amount=window.pads,
        dilation=window.dilations,
        group=None if depthwise else group,
    )


def _filters(op: OpContext, rank: int) -> Tensor:
    """Return the filters, (o, i, ...), as (..., i, o), with at least two spatial axes."""
    if rank > 3:
        return op.arranged(1, (*range(2, rank), 1, 0))
    known = op.constant(1)
    if known is not None:
        turned = known.transpose(2, 1, 0)
        grid = moved(op.grid(1), (2, 1, 0))
        grid = None if grid is None else reshaped_grid(grid, (1, *turned.shape))
        return op.static("filters", turned[None], op.spec(1).dtype, grid)
    filters = op.arranged(1, (2, 1, 0))
    return reshaped(op, "filters", filters, (1, *filters.shape))
