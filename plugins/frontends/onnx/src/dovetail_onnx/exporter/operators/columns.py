"""Conversion of image windows to columns and patches, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import Array, DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_onnx.exporter.operators.convolution import onnx_pads, window_attributes


@exports("Im2Col")
def im2col(e: NodeExport) -> None:
    """Write Pad, and Gather of the elements of all windows."""
    window = e.op.window
    n, _, _, channels = e.spec(0).shape
    x, places = _padded(e, e.channels_first(), window, first=2)
    rows = e.reshape(x, (n, channels, -1))
    taps = e.constant(places.reshape(-1, places.shape[-2] * places.shape[-1]), DType.INT_64)
    e.put(e.reshape(e.add("Gather", [rows, taps], axis=2), e.out.shape))


@exports("ExtractPatches")
def extract_patches(e: NodeExport) -> None:
    """Write Pad, and Gather of the elements of all windows."""
    n, height, width, channels = e.spec(0).shape
    if 0 in e.out.shape:
        raise e.unsupported("the output has no elements")
    x, places = _padded(e, e.input(0), e.op.window(height, width), first=1)
    rows = e.reshape(x, (n, -1, channels))
    taps = e.constant(places.transpose(2, 3, 0, 1).reshape(-1), DType.INT_64)
    e.put(e.reshape(e.add("Gather", [rows, taps], axis=1), e.out.shape))


@exports("Col2Im")
def col2im(e: NodeExport) -> None:
    """Col2Im."""
    window = e.op.window
    inputs = [e.input(0), e.integers(e.out.shape[1:3]), e.integers(window.size)]
    attributes = window_attributes(window)
    del attributes["kernel_shape"]
    e.put_first(e.add("Col2Im", inputs, **attributes))


def _padded(e: NodeExport, x: str, window: Any, *, first: int) -> tuple[str, Array]:
    """Return a padded image, and the index of each element of each window in it.

    Args:
        e: The node.
        x: The image.
        window: The sliding window.
        first: The first of its two spatial axes.

    Returns:
        The padded image, and indices into its (h * w) elements: (kh, kw, oh, ow).
    """
    height, width = e.spec(0).shape[1:3]
    if any(map(any, window.pads)):
        pairs = [(0, 0)] * 4
        pairs[first : first + 2] = window.pads
        x = e.add("Pad", [x, e.integers(onnx_pads(pairs)), e.constant(0, x)])
    extents = [n + sum(pair) for n, pair in zip((height, width), window.pads, strict=True)]
    taps = [np.arange(k) * d for k, d in zip(window.size, window.dilation, strict=True)]
    counts = window.outputs((height, width))
    starts = [np.arange(n) * step for n, step in zip(counts, window.stride, strict=True)]
    rows, columns = (tap[:, None] + start for tap, start in zip(taps, starts, strict=True))
    return x, rows[:, None, :, None] * extents[1] + columns[None, :, None, :]
