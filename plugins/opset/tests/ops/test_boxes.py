"""Boxes refined by deltas, against loops over boxes and cases worked by hand."""

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
F32, I32 = np.float32, np.int32
# float32: a power of e and a handful of sums, on coordinates up to about 100
TOLERANCE = {"rtol": 1e-4, "atol": 1e-3}


def randoms(seed: int, n: int, classes: int, width: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(-5, 40, (n, 2))
    extent = rng.uniform(0, 30, (n, 2))
    if width == 4:
        rois = np.concatenate([low, low + extent], axis=1)
    else:
        rois = np.concatenate([low, extent, rng.uniform(-120, 120, (n, 1))], axis=1)
    deltas = rng.uniform(-1, 1, (n, classes * width))
    return rois.astype(F32), deltas.astype(F32), rng.integers(0, 3, n).astype(I32)


@given(st.integers(0, 6), st.integers(0, 3), st.integers(0, 999))
def test_axis_aligned(run_op: Run, n: int, classes: int, seed: int) -> None:
    rois, deltas, batch = randoms(seed, n, classes, 4)
    image = np.array([[30, 50], [20, 20], [60, 10]], F32)
    weights = [10.0, 5.0, 2.0, 1.0]
    boxes, counts = run_op("AxisAlignedBboxTransform", rois, deltas, batch, image, weights=weights)
    assert counts.tolist() == [batch.tolist().count(i) for i in range(3)]
    assert boxes.shape == deltas.shape
    for i in range(n):
        x1, y1, x2, y2 = (float(v) for v in rois[i])
        height, width = (float(v) for v in image[batch[i]])
        for c in range(classes):
            dx, dy, dw, dh = (
                float(v) / w for v, w in zip(deltas[i, c * 4 : c * 4 + 4], weights, strict=True)
            )
            x, y = (x1 + x2) / 2 + dx * (x2 - x1), (y1 + y2) / 2 + dy * (y2 - y1)
            w, h = (x2 - x1) * math.exp(dw), (y2 - y1) * math.exp(dh)
            want = [
                min(max(v, 0), most)
                for v, most in (
                    (x - w / 2, width),
                    (y - h / 2, height),
                    (x + w / 2, width),
                    (y + h / 2, height),
                )
            ]
            np.testing.assert_allclose(boxes[i, c * 4 : c * 4 + 4], want, **TOLERANCE)


def test_axis_aligned_by_hand(run_op: Run) -> None:
    # twice as wide around a center one extent to the right, cut at the image's width of 18
    rois, deltas = np.array([[2, 2, 6, 4]], F32), np.array([[1, 0, math.log(4), 0]], F32)
    boxes, _ = run_op(
        "AxisAlignedBboxTransform", rois, deltas, np.zeros(1, I32), np.array([[9, 15]], F32)
    )
    np.testing.assert_allclose(boxes, [[0, 2, 15, 4]], rtol=1e-6)  # float32


def test_axis_aligned_refusals(run_op: Run) -> None:
    rois, deltas, batch = randoms(0, 2, 1, 4)
    image = np.ones((1, 2), F32)
    with pytest.raises(OpError, match=r"names image -1 for box 1, but the number of images is 1"):
        run_op("AxisAlignedBboxTransform", rois, deltas, np.array([0, -1], I32), image)
    with pytest.raises(OpError, match=r"in\[1\] must be \(2, classes \* 4\)"):
        run_op("AxisAlignedBboxTransform", rois, deltas[:, :3], batch, image)
    with pytest.raises(OpError, match=r"in\[3\] must be \(images, 2\)"):
        run_op("AxisAlignedBboxTransform", rois, deltas, batch, np.ones(2, F32))
    with pytest.raises(OpError, match="none may be 0"):
        run_op("AxisAlignedBboxTransform", rois, deltas, batch, image, weights=[1, 0, 1, 1])
    with pytest.raises(OpError, match=r"in\[0\] must be float"):
        run_op("AxisAlignedBboxTransform", rois.astype(I32), deltas, batch, image)


@given(
    st.integers(0, 6),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([-1.0, 0.0, 60.0]),
    st.sampled_from([None, (-90, 90), (0, 180)]),
    st.integers(0, 999),
)
def test_rotated(
    run_op: Run, n: int, classes: int, rescale: bool, upright: float, bounds: Any, seed: int
) -> None:
    rois, deltas, batch = randoms(seed, n, classes, 5)
    image = np.array([[30, 50, 2], [21, 20, 1], [60, 11, 0.5]], F32)
    weights = [1.0, 2.0, 0.2, 1.0]
    boxes, counts = run_op(
        "BboxTransform",
        rois,
        deltas,
        image,
        batch,
        weights=weights,
        apply_scale=rescale,
        angle_bounds=bounds,
        angle_clip_threshold=upright,
    )
    assert counts.dtype == F32
    assert counts.tolist() == [batch.tolist().count(i) for i in range(3)]
    for i in range(n):
        height, width, scale = (float(v) for v in image[batch[i]])
        for c in range(classes):
            want = rotated(rois[i], deltas[i, c * 5 : c * 5 + 5], weights, scale)
            if bounds and want[4] < bounds[0]:
                want[4] += bounds[1] - bounds[0]
            elif bounds and want[4] > bounds[1]:
                want[4] -= bounds[1] - bounds[0]
            if abs(want[4]) <= upright:
                most = (math.floor(width / scale + 0.5), math.floor(height / scale + 0.5))
                for axis in (0, 1):
                    low = min(max(want[axis] - want[2 + axis] / 2, 0), most[axis])
                    high = min(max(want[axis] + want[2 + axis] / 2, 0), most[axis])
                    want[axis], want[2 + axis] = (low + high) / 2, high - low
            if rescale:
                want[:4] = [v * scale for v in want[:4]]
            np.testing.assert_allclose(boxes[i, c * 5 : c * 5 + 5], want, **TOLERANCE)


def rotated(roi: Array, delta: Array, weights: list[float], scale: float) -> list[float]:
    x, y, w, h, angle = (float(v) for v in roi)
    x, y, w, h = (v / scale for v in (x, y, w, h))
    dx, dy, dw, dh = (float(v) / k for v, k in zip(delta[:4], weights, strict=True))
    stretch = [math.exp(min(d, math.log(1000 / 16))) for d in (dw, dh)]
    turned = angle + math.degrees(float(delta[4]))
    return [x + dx * w, y + dy * h, w * stretch[0], h * stretch[1], turned]


def test_rotated_stretches_no_farther_than_62_5(run_op: Run) -> None:
    rois, deltas = np.array([[0, 0, 2, 2, 0]], F32), np.array([[0, 0, 99, 0, 0]], F32)
    boxes, counts = run_op(
        "BboxTransform",
        rois,
        deltas,
        np.ones((1, 3), F32),
        weights=[1] * 4,
        specs=(Spec(DType.FLOAT_32, (1, 5)), Spec(DType.INT_32, (1,))),
    )
    np.testing.assert_allclose(boxes, [[0, 0, 125, 2, 0]], rtol=1e-5)  # a power of e in float32
    assert (counts.dtype, counts.tolist()) == (I32, [1])


def test_rotated_refusals(run_op: Run) -> None:
    rois, deltas, _ = randoms(0, 2, 1, 5)
    image = np.ones((1, 3), F32)
    with pytest.raises(OpError, match="must ascend by a multiple of 180"):
        run_op("BboxTransform", rois, deltas, image, weights=[1] * 4, angle_bounds=(-90, 89))
    with pytest.raises(OpError, match=r"in\[2\] must be \(images, 3\)"):
        run_op("BboxTransform", rois, deltas, image[:, :2], weights=[1] * 4)
    with pytest.raises(OpError, match=r"in\[0\] must be \(n, 5\)"):
        run_op("BboxTransform", rois[:, :4], deltas, image, weights=[1] * 4)
