"""DetectionOutput: boxes decoded from anchors, and the best of them."""

from __future__ import annotations

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.launching import GROUP, Argument, Launch, launch_all
from dovetail_gpu.layouts import all_real, element_of, layout_of, read, scratch, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset.ops.detection import NmsType


@KERNELS.register(PACKAGE, "DetectionOutput")
def detection_output(call: KernelCall) -> Step | None:
    """Run DetectionOutput: an item decodes a box, suppresses in a class, collects an image."""
    specs = (*call.head.ins, call.outputs[0].spec)
    if not all_real(specs):
        return None
    op, (images, anchors, classes) = call.op, call.spec(0).shape
    element, most = element_of(call.outputs[0].spec), call.outputs[0].shape[1]
    each, is_fast = 1 if op.share_location else classes, op.nms_type is NmsType.FAST
    parts = images if is_fast else images * classes
    count = images * anchors * each
    scores, deltas, priors = (read(call, i, element) for i in range(3))

    corners = scratch(call, Element.FLOAT, 4 * count)
    keys, kept = (
        scratch(call, Element.ULONG, parts * anchors),
        scratch(call, Element.INT, parts * anchors),
    )
    counts = scratch(call, Element.INT, parts)
    boxes = call.write(1, layout_of(call.outputs[1].spec, Element.FLOAT))
    values, labels, numbers = (write(call, i) for i in (0, 2, 3))
    background, uses_background = op.background_class_idx, int(op.use_bg_in_nms)
    # an index beyond the classes names none
    shared = (int(is_fast), min(background, classes), uses_background)
    limit, eta = op.detection_limit, float(op.nms_eta)
    if is_fast:
        limit, eta = _anchors(call, most), 1.0
    thresholds = (float(op.confidence_threshold), float(op.iou_threshold), eta)
    factors = [float(factor) for factor in op.delta_scaling_factors]
    source = Source.of("detection", {}, type_lines(element))
    decode: list[Argument] = [deltas, priors, corners, count, each, *factors]
    suppress: list[Argument] = [scores, corners, keys, kept, counts, parts, anchors, classes, each]
    collect: list[Argument] = [scores, corners, kept, counts, keys, values, boxes, labels, numbers]
    collect += [images, anchors, classes, each, *shared, int(op.output_background), most]
    return launch_all(
        call,
        [
            Launch(source, "decode", decode, (count,), (GROUP,)),
            Launch(source, "suppress", [*suppress, *shared, limit, *thresholds], (parts,), (1,)),
            Launch(source, "collect", [*collect, op.detection_limit], (images,), (1,)),
        ],
    )


def _anchors(call: KernelCall, most: int) -> int:
    """Return the number of anchors that FAST needs for a number of detections; -1 for all."""
    op, classes = call.op, call.spec(0).shape[2]
    used = classes - int(op.background_class_idx < classes and not op.use_bg_in_nms)
    each = used if op.detection_limit < 0 else min(used, op.detection_limit)
    return -(-most // each) if op.output_background and each else -1
