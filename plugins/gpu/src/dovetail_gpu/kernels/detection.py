"""Detection heads: boxes are decoded, suppressed by class, and the best of all classes returned."""

from __future__ import annotations

from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.launching import Argument, Launch, launch_all
from dovetail_gpu.layouts import element_of, read, scratch, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD

_GROUP = (1,)


@KERNELS.register(STANDARD, "DetectionOutput")
def detections(call: KernelCall) -> Step | None:
    """Run DetectionOutput."""
    if not are_real(call, outputs=2):
        return None
    op, (n, anchors, classes) = call.op, call.spec(0).shape
    most = call.outputs[0].spec.shape[1]
    fast, of_anchor = op.nms_type.name == "FAST", 1 if op.share_location else classes
    bits = fast, op.use_bg_in_nms, op.output_background
    flags = sum(int(bool(bit)) << i for i, bit in enumerate(bits))
    taking = classes - (not op.use_bg_in_nms and op.background_class_idx < classes)
    each = taking if op.detection_limit < 0 else min(taking, op.detection_limit)
    limit = _limit(call, each, most, fast=fast)
    lists = n if fast else n * classes
    background = int(min(op.background_class_idx, classes))

    scores = read(call, 0, Element.FLOAT)
    deltas, priors = read(call, 1, Element.FLOAT), read(call, 2, Element.FLOAT)
    boxes = scratch(call, Element.FLOAT, n * anchors * of_anchor * 4)
    heaps, kept = (
        scratch(call, Element.ULONG, lists * anchors),
        scratch(call, Element.INT, lists * limit),
    )
    counts = scratch(call, Element.INT, lists)
    heads, taken = (scratch(call, kind, n * classes) for kind in (Element.ULONG, Element.INT))
    results = [write(call, i) for i in range(4)]

    factors = [float(f) for f in op.delta_scaling_factors]
    count = n * anchors * of_anchor
    decode: list[Argument] = [deltas, priors, boxes, count, of_anchor, *factors]
    suppress: list[Argument] = [scores, boxes, heaps, kept, counts, lists, anchors, classes]
    suppress += [of_anchor, limit, background, flags]
    suppress += [float(op.confidence_threshold), float(op.iou_threshold)]
    suppress.append(1.0 if fast else float(op.nms_eta))
    merge: list[Argument] = [scores, boxes, kept, counts, heads, taken, *results]
    merge += [n, anchors, classes, of_anchor, limit, background, flags, most, each]
    source = _source(call)
    launches = [
        Launch(source, "decode", decode, (count,), (64,)),
        Launch(source, "suppress", suppress, (lists,), _GROUP),
        Launch(source, "merge", merge, (n,), _GROUP),
    ]
    return launch_all(call, launches)


def _limit(call: KernelCall, each: int, most: int, *, fast: bool) -> int:
    """Return the most boxes that a list may keep: no more can be returned."""
    op, anchors = call.op, call.spec(0).shape[1]
    if not fast:
        return int(min(anchors, most, anchors if op.detection_limit < 0 else op.detection_limit))
    if each == 0:
        return 0
    # the background may be one of the classes of an anchor, and is not shown
    shown = each - int(op.use_bg_in_nms and not op.output_background)
    return int(anchors if shown == 0 else min(anchors, -(-most // shown)))


def _source(call: KernelCall) -> Source:
    scores, box = (element_of(call.outputs[i].spec) for i in (0, 1))
    defines: dict[str, int | str] = {"BOX": box.text, "BOX_HALF": int(box is Element.HALF)}
    return Source.of("detection", defines, type_lines(scores))
