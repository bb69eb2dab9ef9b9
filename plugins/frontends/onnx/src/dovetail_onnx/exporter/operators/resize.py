"""Resizing of images."""

from __future__ import annotations

from typing import Any

from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_opset.resampling import Coordinates


@exports("Resize")
def resize(e: NodeExport) -> None:
    """Resize."""
    op = e.op
    _resized(
        e,
        mode=op.interpolation_mode.name.lower(),
        coordinate_transformation_mode=op.transformation_mode.name.lower(),
        nearest_mode=op.nearest_mode.name.lower(),
        cubic_coeff_a=float(op.cubic_coeff),
        exclude_outside=int(op.exclude_outside) or None,
    )


@exports("ResizeBilinear")
def resize_bilinear(e: NodeExport) -> None:
    """Resize, linear."""
    _resized(
        e,
        mode="linear",
        coordinate_transformation_mode=e.op.coordinates.name.lower(),
        antialias=int(e.op.antialias) or None,
        exclude_outside=int(e.op.antialias) or None,
    )


@exports("ResizeNearestNeighbor")
def resize_nearest(e: NodeExport) -> None:
    """Resize to the nearest element: floor for plain quotients, otherwise halves up."""
    is_plain = e.op.coordinates is Coordinates.ASYMMETRIC
    _resized(
        e,
        mode="nearest",
        coordinate_transformation_mode=e.op.coordinates.name.lower(),
        nearest_mode="floor" if is_plain else "round_prefer_ceil",
    )


def _resized(e: NodeExport, **attributes: Any) -> None:
    order = e.order_first()
    sizes = [e.out.shape[axis] for axis in order]
    if 0 in e.spec(0).shape or 0 in sizes:
        raise e.unsupported("ONNX does not resize tensors without elements")
    e.put_first(e.add("Resize", [e.channels_first(), "", "", e.integers(sizes)], **attributes))
