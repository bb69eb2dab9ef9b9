"""Color formats of image inputs, and the ops between them."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Graph, Shape, Spec, Tensor
from dovetail_opset.build import add, static
from dovetail_opset.ops.color import AlphaOrder, ColorOrder

COLORS = ("bgr", "rgb", "rgba", "argb32", "nv12", "nv21")
OUTPUT_COLORS = ("bgr", "rgb")


def color_shape(color: str, image: tuple[int, int, int]) -> Shape:
    """Return the shape of images in a color format.

    Args:
        color: One of `COLORS`.
        image: Number of images, height and width.
    """
    count, height, width = image
    if color in ("nv12", "nv21"):
        return (count, height * width * 3 // 2)
    return (count, height, width, 4 if color in ("rgba", "argb32") else 3)


def emit_colors(
    graph: Graph,
    x: Tensor,
    colors: tuple[str, str],
    name: str,
    size: tuple[int, int],
) -> Tensor:
    """Add the op that leads from a color format to RGB or BGR, and return (n, h, w, 3).

    Args:
        graph: The graph.
        x: Images of the first format, see `color_shape`.
        colors: The format of `x`, and the wanted one.
        name: The input's name, for that of the op.
        size: Height and width.
    """
    given, own = colors
    name = f"{name}.color"
    if given == own:
        return x
    if given in ("nv12", "nv21"):
        kind = "Nv12ToRgb" if given == "nv12" else "Nv21ToRgb"
        target = Spec(x.dtype, (x.shape[0], *size, 3), x.encoding)
        return add(graph, kind, [x], name=name, spec=target, output_order=ColorOrder[own.upper()])
    if given in ("rgba", "argb32"):
        alpha = AlphaOrder.RGBA if given == "rgba" else AlphaOrder.ARGB
        reverse = own == "bgr"
        return add(graph, "ArgbToRgb", [x], name=name, input_order=alpha, reverse_output=reverse)
    order = static(graph, f"{name}.order", np.array([2, 1, 0], np.int32))
    return add(graph, "Gather", [x, order], name=name, axis=3)
