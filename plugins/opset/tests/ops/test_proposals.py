"""Region proposals against loops over positions and anchors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec

Run = Callable[..., Any]
F32 = np.float32
ANCHORS = np.array([[-4, -4, 4, 4], [-8, -2, 8, 2], [-1, -6, 3, 6]], F32)
SIZES = np.array([[20, 30], [12, 12]], F32)


def randoms(seed: int, n: int, height: int, width: int, each: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    shape = (n, height, width, each)
    scores = rng.permutation(math.prod(shape)).reshape(shape) / 64  # distinct
    deltas = rng.uniform(-1, 1, (n, height, width, each * 4))
    return scores.astype(F32), deltas.astype(F32)


@given(
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([None, 0, 3, 9]),
    st.sampled_from([None, 0, 2, 9]),
    st.booleans(),
    st.integers(0, 999),
)
def test_generate(
    run_op: Run,
    suppress: Run,
    n: int,
    height: int,
    width: int,
    each: int,
    pre: int | None,
    post: int | None,
    clip: bool,
    seed: int,
) -> None:
    scores, deltas = randoms(seed, n, height, width, each)
    deltas[..., 2:3] *= 5  # some stretch farther than the clip allows
    rows = n * height * width * each
    values, boxes, images = run_op(
        "GenerateProposals",
        scores,
        deltas,
        ANCHORS[:each],
        SIZES[:n],
        specs=(Spec(DType.FLOAT_32, (rows,)),),
        img_size_ratio=(5.0, 7.0),
        min_size=1.5,
        pre_nms_limit=pre,
        post_nms_limit=post,
        iou_threshold=0.4,
        bbox_xform_clip=clip,
    )
    want = []
    for i in range(n):
        found = []
        for y, x, a in np.ndindex(height, width, each):
            delta = deltas[i, y, x, a * 4 : a * 4 + 4]
            box = placed(ANCHORS[a], delta, x * 7.0, y * 5.0, SIZES[i], clip)
            found.append((float(scores[i, y, x, a]), box))
        found.sort(key=lambda row: -row[0])
        found = [row for row in found[: pre or len(found)] if fits(row[1], SIZES[i])]
        kept = suppress(
            [r[1] for r in found], [r[0] for r in found], -1, 0.4, post or len(found), touching=True
        )
        want += [(i, *found[k]) for k in kept]
    count = len(want)
    assert images.dtype == np.int32
    assert images[:count].tolist() == [row[0] for row in want]
    assert values[:count].tolist() == [row[1] for row in want]
    # float32: a power of e, on coordinates up to 30
    corners = np.array([row[2] for row in want]).reshape(-1, 4)
    np.testing.assert_allclose(boxes[:count], corners, rtol=1e-4, atol=1e-4)
    assert not any(part[count:].any() for part in (values, boxes, images))


def placed(
    anchor: Array, delta: Array, right: float, down: float, size: Array, clip: bool
) -> list[float]:
    x1, y1, x2, y2 = (float(v) for v in anchor)
    dx, dy, dw, dh = (float(v) for v in delta)
    if clip:
        dw, dh = min(dw, math.log(1000 / 16)), min(dh, math.log(1000 / 16))
    x = (x1 + x2) / 2 + right + dx * (x2 - x1)
    y = (y1 + y2) / 2 + down + dy * (y2 - y1)
    w, h = (x2 - x1) * math.exp(dw), (y2 - y1) * math.exp(dh)
    height, width = (float(v) for v in size)
    return [
        min(max(x - w / 2, 0), width),
        min(max(y - h / 2, 0), height),
        min(max(x + w / 2, 0), width),
        min(max(y + h / 2, 0), height),
    ]


def fits(box: list[float], size: Array) -> bool:
    x1, y1, x2, y2 = box
    inside = (x1 + x2) / 2 < size[1] and (y1 + y2) / 2 < size[0]
    return bool(x2 - x1 > 1.5 and y2 - y1 > 1.5 and inside)


def test_limits_tell_the_extent_where_nothing_is_declared(run_op: Run) -> None:
    scores, deltas = randoms(0, 2, 2, 2, 3)
    given = {"img_size_ratio": (5.0, 5.0), "iou_threshold": 0.7}
    ins = (scores, deltas, ANCHORS, SIZES)
    values, boxes, images = run_op("GenerateProposals", *ins, post_nms_limit=4, **given)
    assert (values.shape, boxes.shape, images.shape) == ((8,), (8, 4), (8,))
    values, *_ = run_op("GenerateProposals", *ins, pre_nms_limit=3, post_nms_limit=4, **given)
    assert values.shape == (6,)
    values, *_ = run_op("GenerateProposals", *ins, post_nms_limit=99, **given)
    assert values.shape == (24,)
    with pytest.raises(OpError, match="the number of proposals is known only at run time"):
        run_op("GenerateProposals", *ins, **given)
    with pytest.raises(OpError, match="but the outputs are declared for 1"):
        run_op("GenerateProposals", *ins, specs=(Spec(DType.FLOAT_32, (1,)),), **given)


def test_refusals(run_op: Run) -> None:
    scores, deltas = randoms(0, 2, 2, 2, 3)
    given = {"img_size_ratio": (5.0, 5.0), "iou_threshold": 0.7, "post_nms_limit": 1}
    with pytest.raises(OpError, match=r"in\[1\] must have shape \(2, 2, 2, 12\)"):
        run_op("GenerateProposals", scores, deltas[..., :4], ANCHORS, SIZES, **given)
    with pytest.raises(OpError, match=r"in\[2\] must have shape \(3, 4\)"):
        run_op("GenerateProposals", scores, deltas, ANCHORS[:2], SIZES, **given)
    with pytest.raises(OpError, match=r"in\[3\] must have shape \(2, 2\)"):
        run_op("GenerateProposals", scores, deltas, ANCHORS, SIZES[:1], **given)
