"""Proposals collected from the levels of a pyramid and distributed to them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import DType, Spec

Run = Callable[..., Any]
F32 = np.float32


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 20), st.integers(0, 999))
def test_collect(run_op: Run, counts: list[int], top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rois = [rng.standard_normal((n, 5), F32) for n in counts]
    scores = [(rng.integers(0, 5, n) / 4).astype(F32) for n in counts]  # many are equal
    left_out = [None] * (5 - len(counts))
    found = run_op(
        "CollectRpnProposals",
        *rois,
        *left_out,
        *scores,
        *left_out,
        rpn_min_level=2,
        rpn_max_level=1 + len(counts),
        post_nms_top=top,
    )
    rows = [(-s, i, k) for i, each in enumerate(scores) for k, s in enumerate(each.tolist())]
    want = [rois[i][k] for _, i, k in sorted(rows)[:top]]
    np.testing.assert_array_equal(found, np.array(want, F32).reshape(-1, 5))


def test_collect_refusals(run_op: Run) -> None:
    rois, scores = np.zeros((2, 5), F32), np.zeros(2, F32)
    none = [None] * 3
    with pytest.raises(OpError, match=r"in\[1\] and in\[6\] must be given: levels 2 to 3 are 2"):
        run_op("CollectRpnProposals", rois, None, *none, scores, None, *none, rpn_max_level=3)
    with pytest.raises(OpError, match=r"in\[1\] and in\[6\] must be left out"):
        run_op("CollectRpnProposals", rois, rois, *none, scores, scores, *none, rpn_max_level=2)
    with pytest.raises(OpError, match="levels 2 to 7 must be 1 to 5 levels"):
        run_op("CollectRpnProposals", rois, None, *none, scores, rpn_max_level=7)
    with pytest.raises(OpError, match=r"in\[5\] must have shape \(2,\)"):
        run_op("CollectRpnProposals", rois, None, *none, scores[:1], rpn_max_level=2)


@given(st.integers(0, 12), st.sampled_from([4, 5]), st.integers(1, 4), st.integers(0, 999))
def test_distribute(run_op: Run, n: int, columns: int, levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rois = rng.uniform(0, 100, (n, columns)).astype(F32)
    rois[:, -2:] += rois[:, -4:-2] + (2.0 ** rng.integers(-3, 11, (n, 1))).astype(F32)
    place, *found = run_op(
        "DistributeFpnProposals", rois, roi_min_level=3, roi_max_level=2 + levels
    )
    assert place.dtype == np.int32
    assert len(found) == levels
    want: list[list[Any]] = [[] for _ in range(levels)]
    for roi in rois:
        x1, y1, x2, y2 = (float(v) for v in roi[-4:])
        level = math.floor(4 + math.log2(math.sqrt((x2 - x1) * (y2 - y1)) / 224))
        want[min(max(level, 3), 2 + levels) - 3].append(roi)
    for got, rows in zip(found, want, strict=True):
        np.testing.assert_array_equal(got[: len(rows)], np.array(rows, F32).reshape(-1, columns))
        assert not got[len(rows) :].any()
    # what the output is for: gathering by it from all levels restores the order
    np.testing.assert_array_equal(np.concatenate(found)[place], rois)


def test_levels_by_hand(run_op: Run) -> None:
    # sides 112, just below, 224, 448, 0 and turned around
    rois = np.array(
        [
            [0, 0, 112, 112],
            [0, 0, 111, 112],
            [9, 9, 233, 233],
            [0, 0, 448, 448],
            [5, 5, 5, 9],
            [9, 9, 5, 5],
        ],
        F32,
    )
    specs = (
        Spec(DType.UINT_32, (6,)),
        *(Spec(DType.FLOAT_32, (n, 4)) for n in (3, 1, 2, 1)),
    )
    place, second, third, fourth, fifth = run_op("DistributeFpnProposals", rois, specs=specs)
    assert place.dtype == np.uint32
    np.testing.assert_array_equal(second, rois[[1, 4, 5]])
    np.testing.assert_array_equal(third, rois[[0]])
    np.testing.assert_array_equal(fourth, [rois[2], [0] * 4])
    np.testing.assert_array_equal(fifth, rois[[3]])
    assert place.tolist() == [3, 0, 4, 6, 1, 2]


def test_distribute_refusals(run_op: Run) -> None:
    rois = np.array([[0, 0, 9, 9], [0, 0, 9, 9]], F32)
    specs = (Spec(DType.INT_32, (2,)), *[Spec(DType.FLOAT_32, (1, 4))] * 4)
    with pytest.raises(OpError, match="2 regions at level 2, but the outputs are declared for 1"):
        run_op("DistributeFpnProposals", rois, specs=specs)
    with pytest.raises(OpError, match="need 2 outputs after"):
        run_op("DistributeFpnProposals", rois, specs=specs, roi_max_level=3)
    with pytest.raises(OpError, match="levels 2 to 6 must be 1 to 4"):
        run_op("DistributeFpnProposals", rois, roi_max_level=6)
    with pytest.raises(OpError, match=r"in\[0\] must be \(n, 4\)"):
        run_op("DistributeFpnProposals", rois[:, :3])
