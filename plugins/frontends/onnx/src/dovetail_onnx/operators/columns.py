"""Columns of windows."""

from __future__ import annotations

import math

from dovetail.ir import Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators._windows import window_of
from dovetail_opset.importing.layout import reshaped, spatial_output
from dovetail_opset.importing.windows import Window


@ONNX.importer("Col2Im", versions=(18,))
def col2im(op: OpContext) -> Tensor:
    """Col2Im; one spatial dimension becomes two, and three need two Col2Im."""
    image = op.need_ints(1, "image shape")
    block = op.need_ints(2, "block shape")
    x = op.tensor(0)
    if len(x.shape) != 3:
        raise op.invalid(f"input must have rank 3, got shape {x.shape}")
    if len(image) not in (1, 2, 3):
        raise op.unsupported(f"unsupported image of {len(image)} dimensions; expected one to three")
    window = window_of(op, block, image)
    if min(map(min, window.pads)) < 0:
        raise op.unsupported(f"pads must not be negative, got {window.pads}")
    rows, size = x.shape[1], math.prod(block)
    if rows % size:
        raise op.invalid(f"{rows} rows are not a multiple of the {size} elements of a block")
    if len(image) == 3:
        return _volume(op, x, window, image)
    spatial = (1,) * (2 - len(image)) + image
    y = _image(op, x, window, spatial)
    return spatial_output(op, y, len(image) + 2)


def _image(op: OpContext, x: Tensor, window: Window, image: Shape) -> Tensor:
    """Return the columns (n, c * block, blocks) as an image, (n, h, w, c)."""
    return op.step(
        "channels_last",
        "Col2Im",
        [x],
        spec=Spec(x.dtype, (x.shape[0], *image, x.shape[1] // math.prod(window.kernel))),
        kernel_size=window.kernel,
        stride=window.strides,
        pad_amount=window.pads,
        dilation=window.dilations,
    )


def _volume(op: OpContext, x: Tensor, window: Window, image: Shape) -> Tensor:
    """Emit columns put back in each plane, and then the planes: windows are sums over each axis.

    Within a plane, the elements of a block along d are treated as further images.
    """
    (n, rows, _), (deep, *flat) = x.shape, window.kernel
    counts = window.counts(image)
    depths, places = counts[0], math.prod(counts[1:])
    channels = rows // math.prod(window.kernel)
    images = n * channels
    if x.shape[2] != depths * places:
        raise op.invalid(f"input has {x.shape[2]} columns, but the image takes {depths * places}")
    apart = reshaped(op, "apart", x, (images, deep, math.prod(flat), depths, places))
    by_plane = op.step("by_plane", "Transpose", [apart], perm=(0, 1, 3, 2, 4))
    merged = reshaped(op, "columns", by_plane, (images * deep * depths, math.prod(flat), places))
    planes = _image(op, merged, _along(window, 1, 2), image[1:])
    area = math.prod(image[1:])
    stacked = reshaped(op, "stacked", planes, (images, deep, depths, area))
    by_element = op.step("by_element", "Transpose", [stacked], perm=(0, 3, 1, 2))
    lines = reshaped(op, "lines", by_element, (images, area * deep, depths))
    whole = _image(op, lines, _along(window, 0), (1, image[0]))
    return op.emit("Reshape", [whole], spec=Spec(x.dtype, (n, channels, *image)))


def _along(window: Window, *axes: int) -> Window:
    """Return a window over one or two of its axes; one becomes two."""
    flat = (1,) * (2 - len(axes))
    parts = (window.kernel, window.strides, window.dilations)
    kernel, strides, dilations = (flat + tuple(part[a] for a in axes) for part in parts)
    pads = ((0, 0),) * len(flat) + tuple(window.pads[a] for a in axes)
    return Window(kernel, strides, dilations, pads)
