"""Convolutions and their transposes: channels first, filters outputs first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dovetail.ir import Shape
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
def convolution(e: NodeExport) -> None:
    """Conv; a depth-wise one has one group for each channel."""
    shape = e.spec(1).shape
    rank = len(shape)
    # (..., i, o) as (o, i, ...)
    weight = e.input(1, (rank - 1, rank - 2, *range(rank - 2)))
    is_depthwise = e.node.op_type.startswith("DepthWise")
    group = e.spec(0).shape[-1] if is_depthwise else e.op.group
    attributes = window_attributes(e.op.window(shape))
    result = e.add(
        "Conv", [e.channels_first(), weight, e.optional(2)], group=int(group), **attributes
    )
    e.put_first(result)


@exports("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")
def transposed(e: NodeExport) -> None:
    """ConvTranspose."""
    shape = e.spec(1).shape
    rank = len(shape)
    # (..., c, k) as (c, k, ...)
    weight = e.input(1, (rank - 2, rank - 1, *range(rank - 2)))
    window = e.op.window(shape)
    extras = [int(n) for n in np.reshape(e.op.output_padding, -1)]
    # elements that are added at an end and then removed need not be computed
    pairs = [(b, max(a - n, 0)) for (b, a), n in zip(window.pads, extras, strict=True)]
    left = [max(n - a, 0) for (_, a), n in zip(window.pads, extras, strict=True)]
    attributes = window_attributes(window) | {"pads": onnx_pads(pairs)}
    result = e.add(
        "ConvTranspose",
        [e.channels_first(), weight, e.optional(2)],
        group=int(e.op.group),
        output_padding=left if any(left) else None,
        **attributes,
    )
    e.put_first(result)


def window_attributes(window: Any) -> dict[str, Any]:
    """Return the attributes of a sliding window."""
    return {
        "kernel_shape": list(window.size),
        "strides": list(window.stride),
        "pads": onnx_pads(window.pads),
        "dilations": list(window.dilation),
    }


def onnx_pads(pairs: Iterable[Shape]) -> list[int]:
    """Return paddings (before, after) in ONNX's order: all `before`, then all `after`."""
    both = list(pairs)
    return [pair[0] for pair in both] + [pair[1] for pair in both]
