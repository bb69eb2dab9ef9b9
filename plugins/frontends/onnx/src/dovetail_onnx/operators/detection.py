"""Detection: suppression of boxes, and features cut out at regions of interest."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, where
from dovetail_onnx.operators._regions import maximum_samples
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Result, Value
from dovetail_opset.importing.indices import narrowed
from dovetail_opset.importing.layout import spatial_input, spatial_output

# Without a score threshold every finite score counts.
_LEAST = float(np.finfo(np.float32).min)


@ONNX.importer("NonMaxSuppression", versions=(10, 11))
def non_max_suppression(op: OpContext) -> Result:
    """NonMaxSuppression, with -1 in the rows after the last selected box.

    ONNX returns one row for each selected box, which depends on the data; a graph has as many as
    possible at most. A caller recognizes the end by the -1. A node cannot: it would gather box 0 of
    image 0, or the last box, once for each unused row, without an error. Therefore the operator is
    converted only if its result is an output of the model that no node reads.
    """
    if op.feeds_nodes(0):
        raise op.unsupported(
            "the number of selected boxes depends on the data, and other nodes read them: "
            "they would "
            "read the unused rows as boxes",
            hint=f"end the model here (--out-name {op.node.outputs[0]}) and apply the rest to the "
            "rows before the first -1",
        )
    boxes, scores = op.spec(0), op.spec(1)
    if len(boxes.shape) != 3 or len(scores.shape) != 3 or scores.shape[2] != boxes.shape[1]:
        raise op.invalid(
            f"boxes {boxes.shape} and scores {scores.shape} must be (n, boxes, 4) and "
            "(n, classes, boxes)"
        )
    most = min(max(int(_constant(op, 2, "max_output_boxes_per_class", 0)), 0), boxes.shape[1])
    rows = scores.shape[0] * scores.shape[1] * most
    if rows == 0:
        return np.zeros((0, 3), np.int64)
    found, count = op.step_all(
        "selected",
        "NonMaxSuppression",
        [_corners(op), op.tensor(1)],
        ("", ""),
        iou_threshold=_constant(op, 3, "iou_threshold", 0.0),
        score_threshold=_constant(op, 4, "score_threshold", _LEAST),
        max_boxes_selected=most,
    )
    return _marked(op, found, count)


def _constant(op: OpContext, i: int, what: str, default: float) -> float:
    """Return a scalar input that must be known at import."""
    if not op.has(i):
        return default
    found = op.need_constant(i, what)
    if found.size != 1:
        raise op.invalid(f"{what} must be a single number, got shape {found.shape}")
    return float(found.reshape(-1)[0])


def _corners(op: OpContext) -> Tensor:
    """Return the boxes by their corners y1, x1, y2, x2."""
    boxes = op.tensor(0)
    if not op.attr.integer("center_point_box", 0):
        return boxes
    middle, extent = (
        Expr(op, boxes).step("Gather", op.static("columns", np.array(at), DType.INT_32), axis=2)
        for at in ((1, 0), (3, 2))  # x, y, w, h: y comes first
    )
    reach = extent * 0.5
    return (middle - reach).step("Concat", middle + reach, axis=2).tensor


def _marked(op: OpContext, rows: Tensor, count: Tensor) -> Value:
    """Emit the rows as INT_64, with -1 after the first `count`."""
    known = Expr(op, count).cast(DType.INT_32)
    place = known.expr(np.arange(rows.shape[0], dtype=np.int32)[:, None])
    return where(place < known, Expr(op, rows), -1).cast(DType.INT_64).emit()


@ONNX.importer("RoiAlign", versions=(10, 16, 22))
def roi_align(op: OpContext) -> Tensor:
    """RoiAlign; half_pixel, the default since version 16, is `aligned`.

    The op computes means of samples. Maxima are gathered if the number of samples is known.
    """
    mode = op.attr.text("mode", "avg")
    if mode not in ("avg", "max"):
        raise op.invalid(f"unsupported mode '{mode}'; expected avg or max")
    half_pixel = "half_pixel" if op.version >= 16 else "output_half_pixel"
    pixels = op.attr.text("coordinate_transformation_mode", half_pixel)
    samples = op.attr.integer("sampling_ratio", 0)
    x = _feature_map(op)
    extent = op.attr.integer("output_height", 1), op.attr.integer("output_width", 1)
    if mode == "max":
        _check_maxima(op, extent, samples)
        y = maximum_samples(op, x, extent, samples, half_pixel=pixels == "half_pixel")
        return spatial_output(op, y, 4)
    index = op.tensor(2)
    y = op.step(
        "channels_last",
        "RoiAlign",
        [x, op.tensor(1), narrowed(op, "images", index, DType.UINT_32)],
        spec=Spec(x.dtype, (op.spec(1).shape[0], *extent, x.shape[3])),
        img_size_ratio=_ratio(op),
        num_samples_y=samples or -1,
        num_samples_x=samples or -1,
        aligned=pixels == "half_pixel",
        allow_invalid_roi=True,
    )
    return spatial_output(op, y, 4)


def _check_maxima(op: OpContext, extent: tuple[int, int], samples: int) -> None:
    """Raise if the maxima of samples cannot be gathered."""
    regions, index = op.spec(1).shape, op.spec(2).shape
    if len(regions) != 2 or regions[1] != 4 or index != regions[:1] or min(extent) < 1:
        raise op.invalid(
            f"regions {regions} must be (n, 4), images {index} (n,), and the output "
            f"{extent} at least 1 in height and width"
        )
    if samples < 1:
        raise op.unsupported(
            f"unsupported sampling_ratio {samples} in mode 'max': the number of samples "
            "depends on the regions",
            hint="state a sampling_ratio above 0, or take means (mode 'avg')",
        )
    op.check_size((regions[0], *(samples * n for n in extent)))


@ONNX.importer("MaxRoiPool", versions=(1, 22))
def max_roi_pool(op: OpContext) -> Tensor:
    """RoiPooling; the images come as the first column of the regions."""
    extent = op.attr.integers("pooled_shape") or ()
    rois = op.tensor(1)
    if len(extent) != 2 or len(rois.shape) != 2 or rois.shape[1] != 5:
        raise op.invalid(
            f"pooled_shape {extent} must have two sizes, and the regions {rois.shape} be (n, 5)"
        )
    x = _feature_map(op)
    count = rois.shape[0]
    index = op.step(
        "first", "StridedSlice", [rois], ranges=[(0, count, 1), (0, 1, 1)], shrink_axes=2
    )
    y = op.step(
        "channels_last",
        "RoiPooling",
        [
            x,
            op.step("corners", "StridedSlice", [rois], ranges=[(0, count, 1), (1, 5, 1)]),
            narrowed(op, "images", index, DType.UINT_32),
        ],
        spec=Spec(x.dtype, (count, *extent, x.shape[3])),
        img_size_ratio=_ratio(op),
    )
    return spatial_output(op, y, 4)


def _feature_map(op: OpContext) -> Tensor:
    if len(op.spec(0).shape) != 4:
        raise op.invalid(f"input must be (n, c, h, w), got shape {op.spec(0).shape}")
    return spatial_input(op)


def _ratio(op: OpContext) -> tuple[float, float]:
    scale = op.attr.number("spatial_scale", 1.0)
    if scale <= 0:
        raise op.invalid(f"spatial_scale must be above 0, got {scale}")
    return 1 / scale, 1 / scale
