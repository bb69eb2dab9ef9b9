"""Regions of interest against loops over bins, samples and elements."""

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


def randoms(seed: int, shape: tuple[int, ...], regions: int) -> tuple[Array, Array, Array]:
    """A feature map, and regions on an eighth's grid, inside and partly outside it."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-16, 56, (regions, 2)) / 8
    high = low + rng.integers(0, 60, (regions, 2)) / 8
    batch = rng.integers(0, max(shape[0], 1), regions)
    x = rng.standard_normal(shape, F32)
    return x, np.concatenate([low, high], axis=1).astype(F32), batch.astype(np.uint32)


def run(run_op: Run, name: str, *ins: Array, extent: tuple[int, int], **params: Any) -> Array:
    x, rois = ins[0], ins[1]
    spec = Spec(DType.of(x.dtype), (len(rois), *extent, x.shape[3]))
    result: Array = run_op(name, *ins, specs=(spec,), **params)
    return result


def bilinear(x: Array, y: float, across: float) -> Array:
    """Return the value at a position of (h, w, c), 0 farther than one element outside."""
    height, width, channels = x.shape
    if not (-1 <= y <= height and -1 <= across <= width):
        return np.zeros(channels)
    y, across = min(max(y, 0), height - 1), min(max(across, 0), width - 1)
    top, left = math.floor(y), math.floor(across)
    value = np.zeros(channels)
    for row, share in ((top, top + 1 - y), (top + 1, y - top)):
        for column, part in ((left, left + 1 - across), (left + 1, across - left)):
            if share and part:
                value += share * part * x[row, column].astype(float)
    return value


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2)),
    st.integers(0, 4),
    st.tuples(st.integers(0, 3), st.integers(1, 3)),
    st.tuples(st.integers(-1, 2), st.integers(-1, 2)),
    st.booleans(),
    st.integers(0, 999),
)
def test_align(
    run_op: Run,
    shape: tuple[int, ...],
    regions: int,
    extent: tuple[int, int],
    samples: tuple[int, int],
    aligned: bool,
    seed: int,
) -> None:
    x, rois, batch = randoms(seed, shape, regions)
    y = run(
        run_op,
        "RoiAlign",
        x,
        rois,
        batch,
        extent=extent,
        img_size_ratio=(2.0, 0.5),
        num_samples_y=samples[0],
        num_samples_x=samples[1],
        aligned=aligned,
    )
    for r in range(regions):
        x1, y1, x2, y2 = (float(v) for v in rois[r])
        starts, bins, counts = [], [], []
        for axis, (low, high, ratio) in enumerate(((y1, y2, 2.0), (x1, x2, 0.5))):
            length = high / ratio - low / ratio
            length = length if aligned else max(length, 1.0)
            starts.append(low / ratio - (0.5 if aligned else 0))
            bins.append(length / max(extent[axis], 1))
            counts.append(samples[axis] if samples[axis] > 0 else math.ceil(bins[axis]))
        for i, j in np.ndindex(*extent):
            total = np.zeros(shape[3])
            for k, m in np.ndindex(*counts):
                total += bilinear(
                    x[batch[r]],
                    starts[0] + bins[0] * (i + (k + 0.5) / counts[0]),
                    starts[1] + bins[1] * (j + (m + 0.5) / counts[1]),
                )
            # float32 places: beside a border at which a sample counts or not, both are right
            near = at_border(starts, bins, counts, (i, j), shape[1:3])
            if not near:
                want = total / max(counts[0] * counts[1], 1)
                np.testing.assert_allclose(y[r, i, j], want, rtol=1e-4, atol=1e-5)


def at_border(
    starts: list[float], bins: list[float], counts: list[int], place: Any, extent: Any
) -> bool:
    for axis in (0, 1):
        for k in range(counts[axis]):
            at = starts[axis] + bins[axis] * (place[axis] + (k + 0.5) / counts[axis])
            if min(abs(at + 1), abs(at - extent[axis])) < 1e-5:
                return True
    return False


def test_align_by_hand(run_op: Run) -> None:
    # a ramp: the mean of samples in a bin is the value at the bin's center
    x = np.arange(8, dtype=F32).reshape(1, 1, 8, 1).repeat(8, axis=1)
    rois, batch = np.array([[1, 1, 5, 5]], F32), np.zeros(1, np.uint32)
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 2), img_size_ratio=(1, 1))
    assert y.ravel().tolist() == [2, 4]
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 2), img_size_ratio=(1, 1), aligned=True)
    assert y.ravel().tolist() == [1.5, 3.5]


def test_small_regions_are_one_element_unless_aligned(run_op: Run) -> None:
    x = np.arange(8, dtype=F32).reshape(1, 1, 8, 1).repeat(4, axis=1)
    rois, batch = np.array([[2, 2, 2, 2]], F32), np.zeros(1, np.uint32)
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 1), img_size_ratio=(1, 1))
    assert y.ravel().tolist() == [2.5]
    # no extent rounds up to no samples, of which the mean is 0
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 1), img_size_ratio=(1, 1), aligned=True)
    assert y.ravel().tolist() == [0]


def test_many_regions_are_taken_in_parts(run_op: Run) -> None:
    x, rois, batch = randoms(3, (2, 20, 20, 64), 300)
    whole = run(run_op, "RoiAlign", x, rois, batch, extent=(7, 7), img_size_ratio=(1, 1))
    for i in (0, 150, 299):
        one = run(
            run_op,
            "RoiAlign",
            x,
            rois[i : i + 1],
            batch[i : i + 1],
            extent=(7, 7),
            img_size_ratio=(1, 1),
        )
        np.testing.assert_array_equal(whole[i : i + 1], one)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_align_in_other_widths(run_op: Run, dtype: Any) -> None:
    x = np.arange(8, dtype=dtype).reshape(1, 1, 8, 1).repeat(8, axis=1)
    rois, batch = np.array([[1, 1, 5, 5]], dtype), np.zeros(1, np.int64)
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 2), img_size_ratio=(1, 1))
    assert y.dtype == dtype
    assert y.ravel().tolist() == [2, 4]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_bins(run_op: Run, value: float) -> None:
    x = np.ones((1, 4, 8, 2), F32)
    x[0, 2, 1, 0] = value
    rois, batch = np.array([[0, 0, 6, 3]], F32), np.zeros(1, np.uint32)
    y = run(run_op, "RoiAlign", x, rois, batch, extent=(1, 3), img_size_ratio=(1, 1))
    want = np.ones((1, 1, 3, 2), F32)
    want[0, 0, 0, 0] = value
    np.testing.assert_allclose(y, want, rtol=1e-6)  # weights in float32


def test_invalid_regions(run_op: Run) -> None:
    x, _, _ = randoms(0, (1, 4, 4, 1), 0)
    rois, batch = np.array([[0, 0, 1, 1], [2, 0, 1, 1]], F32), np.zeros(2, np.uint32)
    given = {"extent": (1, 1), "img_size_ratio": (1, 1)}
    with pytest.raises(OpError, match=r"region 1 of in\[1\] is \[2.0, 0.0, 1.0, 1.0\]") as caught:
        run(run_op, "RoiAlign", x, rois, batch, **given)
    assert "allow_invalid_roi" in caught.value.hint
    y = run(run_op, "RoiAlign", x, rois, batch, allow_invalid_roi=True, aligned=True, **given)
    assert y[1].tolist() == [[[0]]]  # less than no samples
    # not aligned it is one element wide
    y = run(run_op, "RoiAlign", x, rois, batch, allow_invalid_roi=True, **given)
    np.testing.assert_allclose(y[1, 0, 0], bilinear(x[0], 0.5, 2.5), rtol=1e-5)  # float32


@pytest.mark.parametrize("name", ["RoiAlign", "RoiPooling"])
def test_refusals(run_op: Run, name: str) -> None:
    x, rois, batch = randoms(0, (1, 4, 4, 1), 2)
    given = {"extent": (1, 1), "img_size_ratio": (1, 1)}
    with pytest.raises(OpError, match="names image 1 for box 0, but the number of images is 1"):
        run(run_op, name, x, rois, batch + 1, **given)
    with pytest.raises(OpError, match="the height and width of the output are unknown") as caught:
        run_op(name, x, rois, batch, img_size_ratio=(1, 1))
    assert "(2, height, width, 1)" in caught.value.hint
    with pytest.raises(OpError, match="must be above 0"):
        run(run_op, name, x, rois, batch, extent=(1, 1), img_size_ratio=(1, 0))
    with pytest.raises(OpError, match=r"in\[2\] must have shape \(2,\)"):
        run(run_op, name, x, rois, batch[:1], **given)
    with pytest.raises(OpError, match=r"in\[1\] must be \(n, 4\)"):
        run(run_op, name, x, rois[:, :3], batch, **given)


@given(
    st.tuples(st.integers(1, 2), st.integers(0, 6), st.integers(0, 6), st.integers(0, 2)),
    st.integers(0, 4),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([F32, np.int32]),
    st.integers(0, 999),
)
def test_pooling(
    run_op: Run,
    shape: tuple[int, ...],
    regions: int,
    extent: tuple[int, int],
    dtype: Any,
    seed: int,
) -> None:
    x, rois, batch = randoms(seed, shape, regions)
    x = (x * 8).astype(dtype)
    y = run(run_op, "RoiPooling", x, rois, batch, extent=extent, img_size_ratio=(2.0, 0.5))
    assert y.dtype == dtype
    for r in range(regions):
        # halves away from 0
        x1, y1, x2, y2 = (
            int(math.copysign(math.floor(abs(float(v) / k) + 0.5), v))
            for v, k in zip(rois[r], (0.5, 2, 0.5, 2), strict=True)
        )
        height, width = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j in np.ndindex(*extent):
            # elements that the bin touches, in whole numbers: e / bins is where it begins
            rows = [
                y1 + e
                for e in range(height)
                if e * extent[0] < (i + 1) * height and (e + 1) * extent[0] > i * height
            ]
            columns = [
                x1 + e
                for e in range(width)
                if e * extent[1] < (j + 1) * width and (e + 1) * extent[1] > j * width
            ]
            for c in range(shape[3]):
                values = [
                    x[batch[r], a, b, c]
                    for a in rows
                    for b in columns
                    if 0 <= a < shape[1] and 0 <= b < shape[2]
                ]
                assert y[r, i, j, c] == max(values, default=0)


def test_regions_beyond_all_reason(run_op: Run) -> None:
    x, _, _ = randoms(0, (1, 4, 4, 1), 0)
    rois, batch = np.array([[0, 0, 1, 1], [0, 0, 1, 3e38]], F32), np.zeros(2, np.uint32)
    given: dict[str, Any] = {"extent": (1, 1), "img_size_ratio": (1, 1)}
    with pytest.raises(OpError, match=r"region 1 of in\[1\] is so large") as caught:
        run(run_op, "RoiAlign", x, rois, batch, **given)
    assert "num_samples_y" in caught.value.hint
    y = run(run_op, "RoiAlign", x, rois, batch, num_samples_x=2, num_samples_y=2, **given)
    assert y[1].tolist() == [[[0]]]  # all samples are far outside
    rois[1, 2] = np.inf
    y = run(run_op, "RoiPooling", x, rois, batch, **given)
    assert y[1].tolist() == [[[x.max()]]]
