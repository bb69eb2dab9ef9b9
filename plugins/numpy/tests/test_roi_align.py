"""RoiAlign of stored integers: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import integer_roi_align
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, INT = DType.UFIXED_POINT_16, DType.INT_32
SHAPE, COUNT = (2, 19, 23, 12), 40


def check(data: Array, rois: Array, ends: Any, rois_spec: Any, **params: Any) -> None:
    """Compare the step of a RoiAlign with the definition."""
    graph, kind = Graph("net"), TensorKind.APP_WRITE
    (dtype, scale, zero), (target, step, shift) = ends
    batch = np.arange(COUNT, dtype=np.int32) % 2
    x = Tensor("x", dtype, SHAPE, kind, encoding=ScaleOffset(scale, -zero))
    boxes = Tensor("rois", rois_spec[0], (COUNT, 4), kind, encoding=rois_spec[1])
    ins = [graph.add_tensor(t) for t in (x, boxes, Tensor("batch", INT, (COUNT,), kind))]
    out = Spec(target, (COUNT, 5, 7, SHAPE[-1]), ScaleOffset(step, -shift))
    y = add(graph, "RoiAlign", ins, name="y", spec=out, img_size_ratio=(16.0, 16.0), **params)
    y.kind = TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    (one,) = plan.steps
    assert one.bind.__module__ == integer_roi_align.__name__
    feeds = {"x": data.astype(dtype.storage), "rois": rois, "batch": batch}
    found = {"y": np.zeros(out.shape, target.storage)}
    with np.errstate(all="ignore"):
        PlanPrepared(plan).run(feeds, found, RunControl())
        (view,) = checked.nodes
        definition = DEFINITIONS.of(view)
        assert definition is not None
        (wanted,) = definition.compute(view, [*feeds.values()])
    np.testing.assert_array_equal(found["y"], wanted)


@pytest.mark.parametrize("spread", [1, 255])
@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize(
    "ends",
    [
        ((U8, 0.02, 120), (U8, 0.02, 120)),
        ((U8, 0.03, 3), (S8, 0.06, -7)),
        ((U16, 1e-4, 30000), (U16, 2e-4, 5)),
        ((S8, 0.02, 0), (U16, 1e-5, 32768)),
    ],
)
def test_equal_to_definition(ends: Any, samples: int, spread: int, *, is_whole: bool) -> None:
    """Whole positions on equal grids, and means of two, are ties, or not near to one."""
    rng, (low, high) = np.random.default_rng(3), ends[0][0].stored_range()
    data = rng.integers(low, min(low + spread * spread, high), SHAPE, endpoint=True)
    corners = np.sort(rng.uniform(0, 300, (COUNT, 2, 2)), axis=1).reshape(COUNT, 4)
    rois = (np.rint(corners / 16) * 16 if is_whole else corners).astype(np.float32)
    rois[3] = np.nan
    params = {"num_samples_y": samples, "num_samples_x": samples, "aligned": is_whole}
    check(data, rois, ends, (DType.FLOAT_32, None), **params, allow_invalid_roi=True)


def test_regions_of_stored_integers() -> None:
    rng = np.random.default_rng(4)
    data = rng.integers(0, 255, SHAPE, endpoint=True)
    rois = np.sort(rng.integers(0, 2400, (COUNT, 2, 2)), axis=1).reshape(COUNT, 4)
    spec = U16, ScaleOffset(0.125, 0)
    check(data, rois.astype(np.uint16), ((U8, 0.02, 120), (U8, 0.02, 120)), spec)
