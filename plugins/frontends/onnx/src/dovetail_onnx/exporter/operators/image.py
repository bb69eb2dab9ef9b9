"""Images: sampling, regions, colors, noise, and suppression of boxes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dovetail.ir import DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports
from dovetail_opset.ops.color import AlphaOrder
from dovetail_opset.ops.sampling import GridMode


@exports("GridSample")
def grid_sample(e: NodeExport) -> None:
    """GridSample."""
    result = e.add(
        "GridSample",
        [e.channels_first(), e.input(1)],
        align_corners=int(e.op.align_corners),
        mode="linear" if e.op.mode is GridMode.BILINEAR else "nearest",
        padding_mode=e.op.padding_mode.name.lower(),
    )
    e.put_first(result)


@exports("RoiAlign")
def roi_align(e: NodeExport) -> None:
    """RoiAlign, which has one scale and one number of samples for both axes."""
    op = e.op
    down, across = (float(r) for r in op.img_size_ratio)
    samples = max(op.num_samples_y, 0), max(op.num_samples_x, 0)
    if down != across or samples[0] != samples[1]:
        raise e.unsupported("ONNX's RoiAlign has one scale and one number of samples for both axes")
    batch = e.cast(e.input(2), TensorProto.INT64)
    _, height, width, _ = e.out.shape
    result = e.add(
        "RoiAlign",
        [e.channels_first(), e.input(1), batch],
        output_height=height,
        output_width=width,
        sampling_ratio=samples[0],
        spatial_scale=1 / down,
        coordinate_transformation_mode="half_pixel" if op.aligned else "output_half_pixel",
    )
    e.put_first(result)


@exports("NonMaxSuppression")
def non_max_suppression(e: NodeExport) -> None:
    """NonMaxSuppression, filled up with rows of zeros, and the number of its rows."""
    op, rows = e.op, e.out.shape[0]
    limits = (
        e.constant([op.max_boxes_selected], DType.INT_64),
        e.constant([op.iou_threshold], DType.FLOAT_32),
        e.constant([op.score_threshold], DType.FLOAT_32),
    )
    inputs = [e.input(0), e.input(1), *limits]
    found = e.add("NonMaxSuppression", inputs, TensorProto.INT64, center_point_box=0)
    zeros = e.constant(np.zeros((rows, 3)), DType.INT_64)
    filled = e.add("Concat", [found, zeros], axis=0)
    e.put(e.add("Slice", [filled, *(e.integers([v]) for v in (0, rows, 0))]))
    if len(e.node.outputs) > 1:
        count = e.add("Shape", [found], TensorProto.INT64, start=0, end=1)
        e.put(count, i=1)


@exports("ArgbToRgb")
def argb_to_rgb(e: NodeExport) -> None:
    """Gather along the channels."""
    channels = [1, 2, 3] if e.op.input_order is AlphaOrder.ARGB else [0, 1, 2]
    if e.op.reverse_output:
        channels.reverse()
    order = e.layout(0)
    e.put(e.add("Gather", [e.input(0, order), e.integers(channels)], axis=order.index(3)), order)


@exports("RandomUniformLike")
def random_uniform(e: NodeExport) -> None:
    """RandomUniform."""
    low, high = float(e.op.low), float(e.op.high)
    shape = list(e.out.shape)
    made = {"low": low, "high": high, "shape": shape, "dtype": int(TensorProto.FLOAT)}
    e.put(e.add("RandomUniform", [], TensorProto.FLOAT, **made))


@exports("RandomNormalLike")
def random_normal(e: NodeExport) -> None:
    """RandomNormal."""
    mean, scale = float(e.op.mean), float(e.op.scale)
    shape = list(e.out.shape)
    made = {"mean": mean, "scale": scale, "shape": shape, "dtype": int(TensorProto.FLOAT)}
    e.put(e.add("RandomNormal", [], TensorProto.FLOAT, **made))
